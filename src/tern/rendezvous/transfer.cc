// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/transfer.h"

#include <initializer_list>
#include <iterator>

#include "tern/base/trace.h"

namespace tern {

namespace {

template <class State>
constexpr unsigned bits(std::initializer_list<State> states) {
    unsigned bits = 0;
    for (const State each : states) bits |= 1u << static_cast<unsigned>(each);
    return bits;
}

// A state: for the log, and from which states it may be reached.
struct StateRow {
    const char* text;
    unsigned before;
};

using In = Incoming::State;
constexpr unsigned kAnyIncoming = ~bits({In::kFree});
constexpr StateRow kIncoming[] = {{"over", kAnyIncoming},
                                  {"waits", bits({In::kFree})},
                                  {"asks the sender", bits({In::kWaiting})},
                                  {"is being written", bits({In::kAsking})},
                                  {"reads", bits({In::kWaiting})}};
static_assert(std::size(kIncoming) == static_cast<size_t>(In::kReading) + 1);

// A peer may end a transfer twice.
using Out = Outgoing::State;
constexpr unsigned kAnyOutgoing = ~bits({Out::kFree});
constexpr unsigned kServed = kAnyOutgoing & ~bits({Out::kOffering, Out::kOffered});
constexpr StateRow kOutgoing[] = {{"is over", kAnyOutgoing},
                                  {"is to be offered", bits({Out::kFree})},
                                  {"is offered", bits({Out::kOffering})},
                                  {"writes", ~bits({Out::kFinished, Out::kWithdrawn, Out::kEnded})},
                                  {"waits for staging memory", bits({Out::kWriting})},
                                  {"has written all", bits({Out::kWriting})},
                                  {"is withdrawn", bits({Out::kWriting})},
                                  {"waits for its last writes", kServed}};
static_assert(std::size(kOutgoing) == static_cast<size_t>(Out::kEnded) + 1);

}  // namespace

void Incoming::move_to(State next) {
    [[maybe_unused]] const StateRow& row = kIncoming[static_cast<size_t>(next)];
    TERN_ASSERT((row.before & bits({state})) != 0);
    state = next;
    TERN_TRACE("incoming transfer %u %s", number, row.text);
}

void Incoming::trace_decision(Scheme scheme, Reason reason) const {
    TERN_TRACE("%s %u of %lu bytes from %s: %s, because %s", asked_here ? "get" : "put", number,
               static_cast<unsigned long>(length), channel->peer.to_string().c_str(),
               std::string(name_of(scheme)).c_str(), tern::text_of(reason));
}

void Outgoing::move_to(State next) {
    [[maybe_unused]] const StateRow& row = kOutgoing[static_cast<size_t>(next)];
    TERN_ASSERT((row.before & bits({state})) != 0);
    state = next;
    TERN_TRACE("outgoing transfer %u %s", number, row.text);
}

}  // namespace tern
