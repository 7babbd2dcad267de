// SPDX-License-Identifier: BSD-3-Clause
// Who runs next in a simulation whose ranks all poll. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bench::sim {

// The clocks of the ranks' processors, in ns. The rank with the least clock runs: what others do
// later cannot change what it sees. Of several, that with the lowest number, so that runs are the
// same.
class PollingSchedule {
  public:
    static constexpr uint64_t kNever = ~uint64_t{0};
    // Before something happens, a rank that waits for it polls for so long: it then finds it as if
    // it had polled all the time. Nor does it poll more seldom than this: a transport may take a
    // rank that polls seldom for one that computes.
    static constexpr uint64_t kPolled = 150;
    static constexpr uint64_t kMostSkipped = 1000;
    // It polls longer by up to this, less each time than the time of a round of polls: if all
    // waits began in the same phase, their results would be that of one phase.
    static constexpr uint64_t kPhases = 128;

    PollingSchedule(uint32_t ranks, uint64_t start) : ranks_(ranks, {start, false}) {}

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
    // nothing, their clocks go on to shortly before, all by the same time. Not `exact`: they go on
    // to the event at once, and find it some polls later.
    void skip(uint64_t event, bool exact = true) {
        uint64_t least_idle = kNever;
        uint64_t happens = event;
        for (const Rank& rank : ranks_) {
            uint64_t& least = rank.idle ? least_idle : happens;
            least = std::min(least, rank.time);
        }
        const uint64_t most_before = exact ? kPolled + kPhases : 0;
        if (least_idle == kNever || happens == kNever || happens < most_before ||
            happens - most_before <= least_idle)
            return;
        const uint64_t before = exact ? kPolled + skips_++ * kPhaseStep % kPhases : 0;
        uint64_t skipped = happens - before - least_idle;
        if (exact) skipped = std::min(skipped, kMostSkipped);
        for (Rank& rank : ranks_)
            if (rank.idle) rank.time += skipped;
    }

  private:
    struct Rank {
        uint64_t time;
        bool idle;
    };
    static constexpr uint64_t kPhaseStep = 61;
    std::vector<Rank> ranks_;
    uint64_t skips_ = 0;
};

}  // namespace bench::sim
