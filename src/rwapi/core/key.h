// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rwapi/include/rwapi.h"

namespace rwapi {

// All bits of a region's rights.
inline constexpr int kRights = RWAPI_ALL | RWAPI_POLLED;

// The key of a region, as it goes over the wire: all before `rkey`, and the first rkey_length bytes
// of `rkey`.
struct Key {
    static constexpr size_t kMaxBytes = 256;  // as packed
    static constexpr size_t kMaxRkey = 192;
    // Of a packed key, by the length of UCT's.
    static size_t bytes(size_t rkey_length);
    static constexpr uint32_t kMagic = 0x314b5752;  // "RWK1"

    uint32_t magic = kMagic;
    uint32_t sum = 0;      // checksum of what follows; pack() computes it
    uint64_t incarnation;  // a random number of the owner's context
    uint64_t address;
    uint64_t length;
    uint32_t node;
    uint32_t index;
    uint32_t generation;
    uint32_t slots;
    uint8_t rights;
    uint8_t rkey_length;
    std::array<uint8_t, 2> zero = {};
    std::array<std::byte, kMaxRkey> rkey;  // packed by UCT

    // Writes the key's bytes, and returns their number. 0: there is too little room.
    size_t pack(std::span<std::byte> bytes) const;
    // False: the bytes are not a key, or are damaged; then nothing is changed.
    bool unpack(std::span<const std::byte> bytes);
};

}  // namespace rwapi
