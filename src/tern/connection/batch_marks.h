// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

// Decides when frames in a send queue may wait for each other (Batches): once a number of work
// requests is certainly under way. Nobody knows whether unsignaled work requests are under way, so
// some frames are signaled, the marks: while the completion of a mark is still to come, all work
// requests from the mark on are under way. Numbers are those of SendQueue, modulo 2^32; a mark is
// the number after its frame's.
//
// If a process sends to many peers before it polls, the work requests of a due frame are mostly
// complete. It looks in vain, and each mark costs a completion. So marks are twice as far from each
// other after each such look, and half as far after a mark that was complete without one. Pure.
class BatchMarks {
  public:
    void open(uint32_t first) { seen_ = mark_ = last_ = stop_ = first; }
    // 0: frames may always wait, for tests.
    void enable(uint32_t after, uint32_t most) {
        enabled_ = true;
        after_ = least_ = after;
        most_ = std::max(after, most);
        see(seen_);
    }
    // A look at what is complete has shown that the next frame, which was due, is not, because the
    // process sends to others; or it has not.
    void looked(bool in_vain) {
        after_ = in_vain ? std::min(2 * after_, most_) : least_;
        see(seen_);
    }
    // In a burst, further frames may wait behind the last mark alone, until a poll has seen it
    // complete.
    void hurry() {
        after_ = std::min(after_, 1U);
        see(seen_);
    }
    bool enabled() const { return enabled_; }

    // Whether the next frame, of this number, may wait; and whether it is to be a mark, so that
    // later ones may.
    bool due(uint32_t next) const {
        return enabled_ && (after_ == 0 || (awaits() && next - mark_ + 1 >= after_));
    }
    bool mark_due(uint32_t next) const { return enabled_ && !awaits() && next - seen_ >= after_; }
    // The last frame is one.
    void mark(uint32_t next) {
        last_ = next;
        if (!awaits()) mark_ = next;
        see(seen_);
    }
    // All before this number are complete, as far as somebody has seen.
    void see(uint32_t completed) {
        if (static_cast<int32_t>(completed - seen_) > 0) seen_ = completed;
        if (static_cast<int32_t>(seen_ - mark_) >= 0) mark_ = last_;
        stop_ = (awaits() ? mark_ - 1 : seen_) + after_;
    }
    // A poll of the process has seen that all before this number are complete.
    void polled(uint32_t completed) {
        const bool awaited = awaits();
        see(completed);
        if (!awaited || awaits()) return;
        after_ = std::max(after_ / 2, least_);
        see(seen_);
    }
    // Frames before this number need ask nothing of the above. `stop`: another such number.
    uint32_t first_stop(uint32_t stop) const {
        return enabled_ && static_cast<int32_t>(stop_ - stop) < 0 ? stop_ : stop;
    }

  private:
    bool awaits() const { return static_cast<int32_t>(mark_ - seen_) > 0; }

    bool enabled_ = false;
    uint32_t after_ = 0;
    uint32_t least_ = 0, most_ = 0;  // of after_
    uint32_t seen_ = 0;
    uint32_t mark_ = 0;  // the first one that has not been seen, or a later one
    uint32_t last_ = 0;
    uint32_t stop_ = 0;
};

}  // namespace tern
