// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/outgoing_transfer.h"

#include "tern/base/trace.h"

namespace tern {

namespace {

[[maybe_unused]] bool may_follow(Outgoing::State before, Outgoing::State next) {
    using State = Outgoing::State;
    switch (next) {
        case State::kOffering:
            return before == State::kFree;
        case State::kOffered:
            return before == State::kOffering;
        case State::kWriting:
            return before != State::kFinished && before != State::kWithdrawn &&
                   before != State::kEnded;
        case State::kWaiting:
        case State::kFinished:
        case State::kWithdrawn:
            return before == State::kWriting;
        case State::kEnded:  // a peer may end a transfer twice
            return before != State::kFree && before != State::kOffering &&
                   before != State::kOffered;
        default:
            return before != State::kFree;
    }
}

const char* text_of(Outgoing::State state) {
    switch (state) {
        case Outgoing::State::kFree:
            return "is over";
        case Outgoing::State::kOffering:
            return "is to be offered";
        case Outgoing::State::kOffered:
            return "is offered";
        case Outgoing::State::kWriting:
            return "writes";
        case Outgoing::State::kWaiting:
            return "waits for staging memory";
        case Outgoing::State::kFinished:
            return "has written all";
        case Outgoing::State::kWithdrawn:
            return "is withdrawn";
        case Outgoing::State::kEnded:
            return "waits for its last writes";
    }
    return "";
}

}  // namespace

void Outgoing::move_to(State next) {
    TERN_ASSERT(may_follow(state, next));
    state = next;
    TERN_TRACE("outgoing transfer %u %s", number, text_of(next));
}

}  // namespace tern
