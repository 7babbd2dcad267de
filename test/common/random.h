// SPDX-License-Identifier: BSD-3-Clause
// Choices for tests that try many orders of events: random ones, or those that a fuzzer makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tern {

// Small and fast to seed (splitmix64).
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    // The bytes decide; when they are used up, chance does, in the same way each time. A choice
    // takes as few bytes as it needs, so that a change of a byte changes one choice.
    explicit Random(std::span<const uint8_t> bytes) : state_(0), bytes_(bytes) {}

    uint64_t operator()() { return bytes_.empty() ? drawn() : taken(sizeof(uint64_t)); }
    uint64_t below(uint64_t limit) {
        if (bytes_.empty()) return drawn() % limit;
        size_t count = 1;
        while (count < sizeof(uint64_t) && (limit - 1) >> (8 * count) != 0) ++count;
        return taken(count) % limit;
    }
    uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
    bool chance(unsigned percent) { return below(100) < percent; }

  private:
    uint64_t drawn() {
        uint64_t x = state_ += 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return x ^ x >> 31;
    }
    uint64_t taken(size_t count) {
        uint64_t value = 0;
        for (; count != 0 && !bytes_.empty(); --count, bytes_ = bytes_.subspan(1))
            value = value << 8 | bytes_.front();
        return value;
    }

    uint64_t state_;
    std::span<const uint8_t> bytes_;
};

}  // namespace tern
