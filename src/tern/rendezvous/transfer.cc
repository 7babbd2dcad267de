// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/transfer.h"

#include <iterator>

#include "tern/base/trace.h"

namespace tern {

namespace {

[[maybe_unused]] bool may_follow(Incoming::State before, Incoming::State next) {
    using State = Incoming::State;
    switch (next) {
        case State::kWaiting:
            return before == State::kFree;
        case State::kAsking:
        case State::kReading:
            return before == State::kWaiting;
        case State::kRunning:
            return before == State::kAsking;
        default:
            return before != State::kFree;
    }
}

const char* text_of(Incoming::State state) {
    static constexpr const char* kIncoming[] = {"over", "waits", "asks the sender",
                                                "is being written", "reads"};
    static_assert(std::size(kIncoming) == static_cast<size_t>(Incoming::State::kReading) + 1);
    return kIncoming[static_cast<size_t>(state)];
}

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
    static constexpr const char* kOutgoing[] = {
        "is over",      "is to be offered",         "is offered",
        "writes",       "waits for staging memory", "has written all",
        "is withdrawn", "waits for its last writes"};
    static_assert(std::size(kOutgoing) == static_cast<size_t>(Outgoing::State::kEnded) + 1);
    return kOutgoing[static_cast<size_t>(state)];
}

}  // namespace

void Incoming::move_to(State next) {
    TERN_ASSERT(may_follow(state, next));
    state = next;
    TERN_TRACE("incoming transfer %u %s", number, text_of(next));
}

void Incoming::trace_decision(Scheme scheme, Reason reason) const {
    TERN_TRACE("%s %u of %lu bytes from %s: %s, because %s", asked_here ? "get" : "put", number,
               static_cast<unsigned long>(length), channel->peer.to_string().c_str(),
               std::string(name_of(scheme)).c_str(), tern::text_of(reason));
}

void Outgoing::move_to(State next) {
    TERN_ASSERT(may_follow(state, next));
    state = next;
    TERN_TRACE("outgoing transfer %u %s", number, text_of(next));
}

}  // namespace tern
