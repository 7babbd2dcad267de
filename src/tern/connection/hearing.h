// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/base/tunables.h"

namespace tern {

// What a connection that is over takes before its users are told: a pure state machine, without
// verbs or clock. Its queue pair is in the error state (or reset, if the device did not flush it),
// so nothing more arrives.
//
//   kFlushing  work requests are outstanding. The last one was posted in the error state, so its
//              completion comes behind those of all that the device had accepted.
//   kTaking    nothing is outstanding; the round of polls that takes what has arrived is not over
//   kNamed     it is, but frames are missing that the peer has named: all of them have arrived, so
//              the device is still placing them
//   kOver      the users may be told
//
// Transitions, with each look, between which there is a round of polls:
//
//   kFlushing  nothing is outstanding                kTaking
//   kTaking    no named frame is missing             kOver
//              one is                                kNamed
//   kNamed     no named frame is missing             kOver
//              the time limit: the peer was wrong    kOver
class Hearing {
  public:
    // The rounds of polls so far: the first look that counts is in a later one.
    void begin(uint64_t round) { round_ = round; }
    // `idle`: nothing is outstanding. `complete`: no frame is missing that the peer has named.
    // `round`: of polls, which precedes this look; one after the first in it has no effect. `now`:
    // in nanoseconds. True: it is over.
    bool look(bool idle, bool complete, uint64_t round, uint64_t now) {
        if (round == round_) return state_ == State::kOver;
        round_ = round;
        switch (state_) {
            case State::kFlushing:
                if (idle) state_ = State::kTaking;
                break;
            case State::kTaking:
                since_ = now;
                state_ = complete ? State::kOver : State::kNamed;
                break;
            case State::kNamed:
                if (complete || now - since_ >= kDeviceLimit) state_ = State::kOver;
                break;
            case State::kOver:
                break;
        }
        return state_ == State::kOver;
    }
    // Whether a look changes anything before another work request completes.
    bool wants_look(bool idle) const { return idle || state_ != State::kFlushing; }

  private:
    enum class State : uint8_t { kFlushing, kTaking, kNamed, kOver };

    State state_ = State::kFlushing;
    uint64_t round_ = 0;  // of the last look
    uint64_t since_ = 0;  // kNamed
};

}  // namespace tern
