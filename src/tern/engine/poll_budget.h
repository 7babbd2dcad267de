// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "common/assert.h"
#include "tern/base/tunables.h"

namespace tern {

// How many polls look at nothing but the blocks, because polling the completion queue costs more.
// While there is a reason to look further (a transfer under way, no polled block, a sleeper whose
// peers may notify it), every poll does. Data path.
class PollBudget {
  public:
    // A poll begins. And the number of polls.
    void count() { ++polls_; }
    uint64_t polls() const { return polls_; }

    bool is_left() const { return left_ > 0; }
    void spend(bool found_nothing) { left_ -= found_nothing ? kEmptyPoll : 1; }
    void spend_empty() { left_ -= kEmptyPoll; }
    // The next poll looks at everything: something is expected that will not be found in a block.
    void end() { left_ = 0; }
    // A poll has looked at everything.
    void refill() { left_ = full_; }

    // A reason to look at everything begins and ends.
    void begin_reason() {
        ++reasons_;
        left_ = full_ = 0;
    }
    void end_reason() {
        TERN_ASSERT(reasons_ != 0);
        if (--reasons_ == 0) full_ = kBlockPolls;
    }
    bool has_reason() const { return reasons_ != 0; }

    // Whether the next poll that looks at everything also looks for packets and deadlines, which
    // only one in kSeldomPolls does, or one in kUrgentPolls if it is urgent, until
    // seldom_is_done().
    bool seldom_is_next() const { return since_seldom_ >= kSeldomPolls - 1; }
    bool urgent_is_next() const { return since_seldom_ >= kUrgentPolls - 1; }
    // A poll has looked at everything.
    void seldom_is_nearer() { ++since_seldom_; }
    void make_seldom_due() { since_seldom_ = kSeldomPolls; }
    void seldom_is_done() { since_seldom_ = 0; }

  private:
    int left_ = 0;
    int full_ = 0;               // what refill() gives: decided when a reason begins or ends
    uint32_t reasons_ = 1;       // no block is polled at first
    unsigned since_seldom_ = 0;  // polls that looked at everything
    uint64_t polls_ = 0;
};

// Puts with immediate data that peers repeat are seen in the completion queue only. While they
// come, each poll looks there.
class RepeatedArrivals {
  public:
    explicit RepeatedArrivals(PollBudget& budget) : budget_(budget) {}

    // One has come, or is announced.
    void expect() {
        quiet_ = 0;
        if (!expected_) [[unlikely]]
            begin();
    }
    // Called every kSeldomPolls polls that look at everything.
    void look() {
        if (!expected_ || ++quiet_ < kQuietLooks) return;
        expected_ = false;
        budget_.end_reason();
    }

  private:
    [[gnu::noinline, gnu::cold]] void begin() {
        expected_ = true;
        budget_.begin_reason();
    }

    PollBudget& budget_;
    bool expected_ = false;
    uint32_t quiet_ = 0;
};

}  // namespace tern
