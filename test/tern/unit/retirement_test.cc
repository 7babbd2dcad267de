// SPDX-License-Identifier: BSD-3-Clause
// When a queue pair with a shared receive queue may be destroyed, in all orders of events.
#include "tern/connection/ended_connections.h"

#include <gtest/gtest.h>

#include <string>

namespace tern {
namespace {

constexpr uint64_t kLimit = 1000;

enum class Event : uint8_t { kLastReceive, kTick, kLateTick, kRound };
constexpr Event kEvents[] = {Event::kLastReceive, Event::kTick, Event::kLateTick, Event::kRound};

void apply(Retirement& retirement, Event event) {
    switch (event) {
        case Event::kLastReceive:
            return retirement.on_last_receive();
        case Event::kTick:
            return retirement.tick(kLimit - 1);
        case Event::kLateTick:
            return retirement.tick(kLimit);
        case Event::kRound:
            return retirement.on_round();
    }
}

// What the state must be, from the history alone.
struct History {
    std::string events;
    bool reached = false;
    unsigned rounds = 0;  // since then

    void add(Event event) {
        events += "ltTr"[static_cast<int>(event)];
        if (event == Event::kRound)
            rounds += reached;
        else
            reached |= event != Event::kTick;
    }
};

void go_on(const Retirement& retirement, const History& history, unsigned left) {
    ASSERT_EQ(retirement.over(), history.rounds == 2) << history.events;
    ASSERT_EQ(retirement.awaited(), !history.reached) << history.events;
    ASSERT_EQ(retirement.deadline(), history.reached ? UINT64_MAX : kLimit) << history.events;
    if (left == 0 || retirement.over()) return;
    for (const Event event : kEvents) {
        Retirement next = retirement;
        History longer = history;
        apply(next, event);
        longer.add(event);
        ASSERT_NO_FATAL_FAILURE(go_on(next, longer, left - 1));
    }
}

TEST(Retirement, EndsTwoRoundsAfterTheLastReceiveOrTheLimit) {
    go_on(Retirement(kLimit, false), {}, 7);
    History reported;
    reported.reached = true;
    go_on(Retirement(kLimit, true), reported, 7);
}

}  // namespace
}  // namespace tern
