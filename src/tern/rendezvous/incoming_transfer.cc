// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/incoming_transfer.h"

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

}  // namespace tern
