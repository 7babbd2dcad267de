// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "common/assert.h"

namespace tern {

// The end of a queue pair that uses a shared receive queue, from the error state on: a pure state
// machine, without verbs or clock. The device may have taken receives for it, and gives them back
// as completions; when there are no more, it reports the last one. Receives that it has not given
// back when the queue pair is destroyed are lost.
//
//   kAwaited  the device may still have receives for it
//   kReached  their completions are in the completion queue
//   kPolled   a round of polls has ended, which perhaps began before
//   kOver     so has a round that began later, and has taken them: the queue pair may be destroyed
//
// Transitions:
//
//   kAwaited  the device reports the last receive               kReached
//             the time limit: some devices never report it      kReached
//   kReached  the end of a round of polls                       kPolled
//   kPolled   the end of a round of polls                       kOver
class Retirement {
  public:
    // `reported`: the device has reported the last receive already.
    Retirement(uint64_t limit, bool reported)
        : limit_(limit), state_(reported ? State::kReached : State::kAwaited) {}

    void on_last_receive() {
        if (state_ == State::kAwaited) state_ = State::kReached;
    }
    void tick(uint64_t now) {
        if (now >= limit_) on_last_receive();
    }
    // All completions and frames that had come when the round began have been handled.
    void on_round() {
        TERN_ASSERT(state_ != State::kOver);
        if (state_ == State::kReached)
            state_ = State::kPolled;
        else if (state_ == State::kPolled)
            state_ = State::kOver;
    }

    bool awaited() const { return state_ == State::kAwaited; }
    bool over() const { return state_ == State::kOver; }
    // When to call tick(); UINT64_MAX: never.
    uint64_t deadline() const { return awaited() ? limit_ : UINT64_MAX; }

  private:
    enum class State : uint8_t { kAwaited, kReached, kPolled, kOver };

    uint64_t limit_;
    State state_;
};

}  // namespace tern
