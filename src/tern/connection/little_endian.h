// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tern {

// Writes the low `kBytes` bytes of `value` in the byte order of the wire.
template <size_t kBytes>
inline void put_little_endian(std::byte* out, uint64_t value) {
    for (size_t i = 0; i < kBytes; ++i) out[i] = static_cast<std::byte>(value >> 8 * i);
}

template <size_t kBytes>
inline uint64_t get_little_endian(const std::byte* in) {
    uint64_t value = 0;
    for (size_t i = 0; i < kBytes; ++i) value |= std::to_integer<uint64_t>(in[i]) << 8 * i;
    return value;
}

// Takes a control frame, a struct whose members are laid out as on the wire. False: the length is
// wrong.
template <class Frame>
inline bool unpack(Frame& frame, const std::byte* data, uint32_t length) {
    if (length != sizeof(frame)) return false;
    memcpy(&frame, data, sizeof(frame));
    return true;
}

}  // namespace tern
