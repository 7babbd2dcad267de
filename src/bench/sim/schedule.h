// SPDX-License-Identifier: BSD-3-Clause
// The order in which the ranks of a simulation run. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "softhca/core/virtual_time.h"

namespace bench::sim {

// Numbers that look like chance, the same in each run: splitmix64.
constexpr uint64_t chance(uint64_t index) {
    uint64_t z = (index + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

// A rank whose polls find nothing, again and again: how its loop of polls goes on is known, so that
// it need not run.
class Waiting {
  public:
    // Polls after which a loop repeats itself: Tern looks at its completion queue in one of five.
    static constexpr uint32_t kCycle = 5;
    // Polls that find nothing before a rank sleeps. A transport may have put off something.
    static constexpr uint32_t kSettled = 2 * kCycle;
    // Polls after which it sleeps even if they never repeat, or leave a completion: Tern looks at
    // its queue of datagrams in one of 320.
    static constexpr uint32_t kMost = 330;

    void found_something() {
        idle_ = 0;
        least_ = kSettled;
    }
    // It has slept for long, and polls for long now.
    void look_at_all() { least_ = kMost; }
    // A step that found nothing took so long.
    void found_nothing(uint64_t ns) {
        took_[idle_ % kSettled] = ns;
        ++idle_;
    }
    // Whether the next polls will be as the last ones.
    bool settled() const { return idle_ >= least_ && (idle_ >= kMost || sum(0) == sum(kCycle)); }
    bool gives_up() const { return idle_ >= kMost; }
    // Of the last ones.
    uint64_t cycle_ns() const { return std::max<uint64_t>(sum(kCycle), 1); }

  private:
    // Of the polls from `first` on, of the last kSettled ones.
    uint64_t sum(uint32_t first) const {
        uint64_t ns = 0;
        for (uint32_t i = 0; i < kCycle; ++i) ns += took_[(idle_ + first + i) % kSettled];
        return ns;
    }
    std::array<uint64_t, kSettled> took_ = {};
    uint32_t idle_ = 0;  // steps in a row that found nothing
    uint32_t least_ = kSettled;
};

// The clocks of the ranks' processors, in ns. The rank with the least clock runs: what others do
// later cannot change what it sees. Of several, that with the lowest number, so that runs are the
// same. A rank that waits sleeps until something concerns it, and then its clock is where its loop
// of polls would be.
class Schedule {
  public:
    // A rank sleeps no longer than this. Its transport may wait for a time, of which nobody knows.
    static constexpr uint64_t kLongest = 1'000'000;

    Schedule(uint32_t ranks, uint64_t start) : ranks_(ranks) {
        for (uint32_t rank = 0; rank < ranks; ++rank) {
            ranks_[rank].time = start;
            queue_.emplace(start, rank);
        }
    }

    uint32_t ranks() const { return static_cast<uint32_t>(ranks_.size()); }
    // The rank that runs next. If it sleeps, it has slept for kLongest at that time.
    uint32_t next() const { return queue_.begin()->second; }
    uint64_t next_time() const { return queue_.begin()->first; }
    bool is_asleep(uint32_t rank) const { return ranks_[rank].asleep; }
    // Time for which the rank has slept: polls that were left out.
    uint64_t slept(uint32_t rank) const { return ranks_[rank].slept; }

    // The rank has run until `time`. `idle`: it found nothing to do. True: it may sleep, unless it
    // has reason to poll again.
    bool ran(uint32_t rank, uint64_t time, bool idle) {
        Rank& who = ranks_[rank];
        // Each step takes time, or a rank that finds nothing would run for ever.
        time = std::max(time, who.time + 1);
        if (idle)
            who.waiting.found_nothing(time - who.time);
        else
            who.waiting.found_something();
        move(rank, who.time, time);
        who.time = time;
        return who.waiting.settled();
    }
    bool gives_up(uint32_t rank) const { return ranks_[rank].waiting.gives_up(); }
    void sleep(uint32_t rank) {
        Rank& who = ranks_[rank];
        who.asleep = true;
        move(rank, who.time, who.time + kLongest);
    }

    // From `time` on, the rank may find something. True: it has slept, and its clock is now that of
    // the last cycle of polls that begins before.
    bool may_find(uint32_t rank, uint64_t time) {
        Rank& who = ranks_[rank];
        if (!who.asleep) {
            who.waiting.found_something();
            return false;
        }
        // While the last cycle is known, as the polls from now on are counted anew.
        const uint64_t woken = woken_at(rank, time);
        who.waiting.found_something();
        who.asleep = false;
        who.slept += woken - who.time;
        move(rank, who.time + kLongest, woken);
        who.time = woken;
        return true;
    }

    // A rank that has slept for kLongest wakes: it may find something that no event announced.
    bool may_find_at_last(uint32_t rank) {
        if (!ranks_[rank].asleep) return false;
        may_find(rank, next_time());
        ranks_[rank].waiting.look_at_all();
        return true;
    }

  private:
    struct Rank {
        uint64_t time = 0;
        uint64_t slept = 0;
        uint32_t sleeps = 0;
        bool asleep = false;
        Waiting waiting;
    };

    void move(uint32_t rank, uint64_t from, uint64_t to) {
        auto entry = queue_.extract({from, rank});
        entry.value().first = to;
        queue_.insert(std::move(entry));
    }
    // Loops of polls begin at phases that look like chance, the same in each run: if all waits
    // began in the same phase, or those of two ranks in phases that depend on each other, a result
    // would be that of one phase.
    uint64_t woken_at(uint32_t rank, uint64_t time) {
        Rank& who = ranks_[rank];
        const uint64_t cycle = who.waiting.cycle_ns();
        const uint64_t begin = who.time + chance(uint64_t{rank} << 32 | ++who.sleeps) % cycle;
        return time < begin ? who.time : begin + (time - begin) / cycle * cycle;
    }

    std::vector<Rank> ranks_;
    std::set<std::pair<uint64_t, uint32_t>> queue_;  // by time
};

struct Turn {
    uint32_t rank;
    uint64_t time;
};

// To which member of the fabric each rank belongs: with fewer members than ranks, each takes the
// next rank in turn.
struct Members {
    uint32_t count = UINT32_MAX;
    bool first_alone = false;  // rank 0 shares its member with nobody

    uint32_t of(uint32_t rank) const {
        if (!first_alone) return rank % count;
        return rank == 0 ? 0 : 1 + (rank - 1) % (count - 1);
    }
    // The next rank of the same member; that of the member's own number is the first one.
    uint64_t next(uint64_t rank) const {
        if (!first_alone) return rank + count;
        return rank == 0 ? UINT64_MAX : rank + count - 1;
    }
};

// Which ranks a schedule has: rank 0, and others from one on.
struct Part {
    uint32_t first = 1;
    Members members = {};

    uint32_t rank(uint32_t turn) const { return turn == 0 ? 0 : first + turn - 1; }
    uint32_t turn(uint64_t rank) const {
        if (rank == 0) return 0;
        return rank < first ? UINT32_MAX : static_cast<uint32_t>(rank - first + 1);
    }
};

// Whose turn is next, after the device has done what is due until then. Whoever has slept, and is
// concerned by it, runs first. `device`: a Machine.
template <typename Device>
Turn next_turn(Schedule& schedule, Device& device, const Part& part = {}) {
    for (;;) {
        softhca_virtual_event event;
        if (device.peek(&event) && event.time <= schedule.next_time()) {
            bool woken = false;
            const uint64_t end = uint64_t{part.first} + schedule.ranks();
            for (uint64_t rank = event.member; event.seen != 0 && rank < end;
                 rank = part.members.next(rank)) {
                const uint32_t turn = part.turn(rank);
                if (turn < schedule.ranks() && schedule.may_find(turn, event.time)) woken = true;
            }
            if (!woken) device.step();
        } else if (!schedule.may_find_at_last(schedule.next())) {
            return {schedule.next(), schedule.next_time()};
        }
    }
}

// The rank's turn has ended at `time`. `idle`: it found nothing to do.
template <typename Device>
void end_turn(Schedule& schedule, Device& device, uint32_t turn, uint64_t time, bool idle,
              const Part& part = {}) {
    if (schedule.ran(turn, time, idle) &&
        (schedule.gives_up(turn) || !device.has_completion(part.members.of(part.rank(turn)))))
        schedule.sleep(turn);
}

}  // namespace bench::sim
