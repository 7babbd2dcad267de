// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
    static constexpr size_t kFixed = 52;
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

    // Of a packed key, by the length of UCT's.
    static size_t bytes(size_t rkey_length) { return kFixed + rkey_length; }
    // Writes the key's bytes, and returns their number. 0: there is too little room.
    size_t pack(std::span<std::byte> to) const {
        const size_t size = bytes(rkey_length);
        if (to.size() < size) return 0;
        std::memcpy(to.data(), this, size);
        const uint32_t sum_of_bytes = sum_of(to.subspan(offsetof(Key, incarnation), size - 8));
        std::memcpy(to.data() + offsetof(Key, sum), &sum_of_bytes, sizeof sum_of_bytes);
        return size;
    }
    // False: the bytes are not a key, or are damaged; then nothing is changed.
    bool unpack(std::span<const std::byte> from) {
        Key key{};
        if (from.size() < kFixed || from.size() > kFixed + kMaxRkey) return false;
        std::memcpy(&key, from.data(), from.size());
        if (key.magic != kMagic || from.size() != kFixed + key.rkey_length ||
            key.zero != decltype(zero){} || (key.rights & ~kRights) != 0 ||
            key.sum != sum_of(from.subspan(offsetof(Key, incarnation))) ||
            key.address + key.length < key.address)
            return false;
        *this = key;
        return true;
    }

  private:
    // FNV-1a. It detects accidental damage, not forged keys.
    static uint32_t sum_of(std::span<const std::byte> bytes) {
        uint32_t sum = 2166136261u;
        for (const std::byte byte : bytes) sum = (sum ^ static_cast<uint8_t>(byte)) * 16777619u;
        return sum;
    }
};
// Keys go over the wire as they are. No padding: its bytes would be undefined.
static_assert(std::endian::native == std::endian::little && offsetof(Key, rkey) == Key::kFixed &&
              Key::kFixed + Key::kMaxRkey <= Key::kMaxBytes);

}  // namespace rwapi
