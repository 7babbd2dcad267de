// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/transfer.h"

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
    switch (state) {
        case Incoming::State::kFree:
            return "over";
        case Incoming::State::kWaiting:
            return "waits";
        case Incoming::State::kAsking:
            return "asks the sender";
        case Incoming::State::kRunning:
            return "is being written";
        case Incoming::State::kReading:
            return "reads";
    }
    return "";
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
