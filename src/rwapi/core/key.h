// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rwapi/include/rwapi.h"

namespace rwapi {

// What a peer must know of a region of this process, as it goes over the wire: the first
// rkey_length bytes of rkey, and all before them.
struct Key {
    static constexpr size_t kMaxRkey = 192;
    static constexpr uint32_t kMagic = 0x314b5752;  // "RWK1"

    uint32_t magic = kMagic;
    uint32_t sum = 0;      // of what follows; pack() has it
    uint64_t incarnation;  // of the owner's context: no two have the same one
    uint64_t address;
    uint64_t length;
    uint32_t node;
    uint32_t index;
    uint32_t generation;
    uint32_t slots;
    uint8_t rights;
    uint8_t rkey_length;
    std::array<uint8_t, 2> zero = {};
    std::array<std::byte, kMaxRkey> rkey;  // UCT's

    // Writes the key's bytes, and returns how many; 0: there is too little room.
    size_t pack(std::span<std::byte> bytes) const;
    // False: the bytes are not those of a key, or damaged.
    bool unpack(std::span<const std::byte> bytes);
};

}  // namespace rwapi
