// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/fastpath_load.h"

#include <cmath>

namespace bench {
namespace {

constexpr uint32_t kTooLong = 64 << 10;
constexpr uint32_t kShortest = 8;

// SplitMix64: the same everywhere, which the standard library's distributions are not.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>((next() >> 32) * limit >> 32); }
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  private:
    uint64_t state_;
};

uint32_t size_of_message(Random& random) {
    if (random.below(10) == 0) return kTooLong;
    const double doublings = std::log2(static_cast<double>(kLongestFast) / kShortest);
    return static_cast<uint32_t>(kShortest * std::exp2(doublings * random.unit()));
}

}  // namespace

std::vector<Burst> make_load(uint64_t seed, uint32_t longest, uint32_t messages) {
    Random random(seed);
    std::vector<Burst> load;
    for (uint32_t made = 0; made < messages;) {
        Burst burst;
        burst.sizes.resize(1 + random.below(longest));
        for (uint32_t& size : burst.sizes) size = size_of_message(random);
        burst.answered = random.below(2) == 0;
        made += static_cast<uint32_t>(burst.sizes.size());
        load.push_back(std::move(burst));
    }
    return load;
}

}  // namespace bench
