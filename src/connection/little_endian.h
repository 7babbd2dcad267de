// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace tern
