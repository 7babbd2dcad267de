// SPDX-License-Identifier: BSD-3-Clause
// Who runs next in a simulation. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bench::sim {

// The clocks of the ranks' processors, in ns. The rank with the least clock runs: what others do
// later cannot change what it sees. Of several, that with the lowest number, so that runs are the
// same.
class Schedule {
  public:
    static constexpr uint64_t kNever = ~uint64_t{0};
    // Before something happens, a rank that waits for it polls for so long: it then finds it as if
    // it had polled all the time.
    static constexpr uint64_t kPolled = 300;

    Schedule(uint32_t ranks, uint64_t start) : ranks_(ranks, {start, false}) {}

    uint32_t next() const {
        const auto least = std::ranges::min_element(ranks_, {}, &Rank::time);
        return static_cast<uint32_t>(least - ranks_.begin());
    }
    uint64_t time(uint32_t rank) const { return ranks_[rank].time; }

    // The rank has run until `time`. `idle`: it found nothing to do.
    void ran(uint32_t rank, uint64_t time, bool idle) {
        // Each step takes time, or a rank that finds nothing would run for ever.
        ranks_[rank] = {std::max(time, ranks_[rank].time + 1), idle};
    }

    // The device acts next at `event`. If until then only idle ranks would run, which would find
    // nothing, their clocks go on to shortly before, all by the same time.
    void skip(uint64_t event) {
        uint64_t least_idle = kNever;
        uint64_t happens = event;
        for (const Rank& rank : ranks_) {
            uint64_t& least = rank.idle ? least_idle : happens;
            least = std::min(least, rank.time);
        }
        if (least_idle == kNever || happens == kNever || happens - kPolled <= least_idle ||
            happens < kPolled)
            return;
        const uint64_t skipped = happens - kPolled - least_idle;
        for (Rank& rank : ranks_)
            if (rank.idle) rank.time += skipped;
    }

  private:
    struct Rank {
        uint64_t time;
        bool idle;
    };
    std::vector<Rank> ranks_;
};

}  // namespace bench::sim
