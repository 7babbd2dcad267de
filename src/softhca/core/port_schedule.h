// SPDX-License-Identifier: BSD-3-Clause
// When one direction of one port is busy. Pure: times are arguments in ns of one clock. Lives in
// shared memory, valid when zero; the caller holds the lock of its LinkPair.
#pragma once

#include <cstdint>

namespace softhca {

class PortSchedule {
  public:
    // Books the first `work` ns from `earliest` on that nobody has booked, which need not be in one
    // piece: packets of several senders take turns. Returns when the booking would have begun if
    // its last piece were all of it; it ends `work` later. In a simulation a member may be at an
    // earlier time than the one before, so pauses that are over stay while there is room.
    uint64_t reserve(uint64_t now, uint64_t earliest, uint64_t work);

    // 0 if nothing is booked.
    uint64_t busy_until() const { return count_ == 0 ? 0 : busy_[count_ - 1].end; }
    void clear() { count_ = 0; }

  private:
    struct Interval {
        uint64_t begin;
        uint64_t end;
    };
    // With that many intervals, a pause between two counts as busy: the first one if it is over,
    // else the shortest one.
    static constexpr uint32_t kIntervals = 64;

    void erase(uint32_t from, uint32_t to);
    void insert(uint32_t at, const Interval& interval);
    void close_a_pause(uint64_t now);

    uint32_t count_ = 0;
    Interval busy_[kIntervals] = {};  // in order of time, with pauses between them
};

}  // namespace softhca
