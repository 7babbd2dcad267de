// SPDX-License-Identifier: BSD-3-Clause
// How many messages are direct, and how many grants are void, in the traffic of programs: one
// sender and one receiver around the real core, with a network that has latency.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "schedules.h"
#include "tern/base/tunables.h"
#include "tern/tupleq/core/matcher.h"
#include "tern/tupleq/core/posted.h"
#include "tern/tupleq/core/senders.h"

namespace tern {
namespace tuple_traffic_test {

struct Table : TuplePosted {
    using TuplePosted::TuplePosted;
    static uint64_t capacity(ReceiveHandle) { return 1 << 30; }
    static bool prepare(ReceiveHandle) { return true; }
};

constexpr uint64_t kWay = 100;  // latency of a message or a grant

struct Totals {
    uint64_t messages = 0;
    uint64_t direct = 0;
    uint64_t voids = 0;

    Totals operator+(const Totals& other) const {
        return {messages + other.messages, direct + other.direct, voids + other.voids};
    }
    Totals operator-(const Totals& other) const {
        return {messages - other.messages, direct - other.direct, voids - other.voids};
    }
};
struct Pattern {
    uint32_t receives = 1;  // number of posted receives, and of messages sent then
    uint64_t wait = 0;      // time between posting and the first message
    uint64_t space = 1;     // time between messages
    bool computes = false;  // the receiver looks only when all messages are there
    uint64_t length = 10;   // bytes of each message
};

class TupleTraffic : public testing::Test {
  protected:
    static constexpr uint64_t kTag = 5;
    static constexpr uint32_t kDepth = 16;

    // The sender sends just before the grant arrives.
    static constexpr Pattern kPingPong{.wait = kWay - 1};
    static constexpr Pattern kOverlapped{.wait = 10 * kWay, .computes = true};

    TupleTraffic() {
        EXPECT_TRUE(receivers_.bind(1, kTag));
        TupleBound answer;
        EXPECT_TRUE(senders_.bind(1, {kTag, KeyMask::kFull, 0, kDepth}, answer));
        EXPECT_TRUE(receivers_.bound(1, answer));
        receivers_.actions().pop();
    }

    Totals run(const Pattern& pattern, uint32_t times) {
        const Totals before = totals();
        for (uint32_t i = 0; i < times; ++i) round(pattern);
        return totals() - before;
    }

  private:
    Totals totals() const {
        return {messages_, receivers_.counters().direct, receivers_.counters().void_grants};
    }

    void round(const Pattern& pattern) {
        const uint64_t begin = now_;
        const uint64_t last = begin + pattern.wait + pattern.receives * pattern.space + kWay;
        length_ = pattern.length;
        looks_from_ = pattern.computes ? last : 0;
        for (uint32_t i = 0; i < pattern.receives; ++i) {
            post();
            at(begin + pattern.wait + i * pattern.space, [this] { send(); });
        }
        while (!events_.empty() && events_.begin()->first <= last + kWay) step();
        now_ = last + kWay;
    }
    void step() {
        now_ = events_.begin()->first;
        const auto event = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        event();
    }
    void at(uint64_t time, std::function<void()> event) { events_.emplace(time, std::move(event)); }
    // An event for the receiver, which notices it the next time it looks.
    void arrive(uint64_t after, std::function<void()> event) {
        at(std::max(now_ + after, looks_from_), [this, event = std::move(event)] {
            event();
            act();
        });
    }

    void post() {
        PostedReceive& receive = *receives_.emplace_back(std::make_unique<PostedReceive>());
        posted_.post(receive, kTag, PostedReceive::kFullMask);
        receivers_.posted(kTag);
        act();
    }
    void send() {
        TupleSenders::Tuple& tuple = *senders_.find(1, kTag);
        ++messages_;
        if (tuple.sender.may_send_direct(length_) && tuple.sender.send_direct(length_)) {
            arrive(kWay, [this] { EXPECT_NE(receivers_.direct(0).receive, 0u); });
        } else {
            arrive(kWay, [this, mark = TupleSenders::mark(tuple)] {
                EXPECT_NE(receivers_.ordinary(1, kTag, &mark, length_).receive, 0u);
            });
        }
    }
    void act() {
        for (; !receivers_.actions().empty(); receivers_.actions().pop()) {
            const TupleAction action = receivers_.actions().front();
            if (action.kind == TupleAction::Kind::kGrant)
                at(now_ + kWay, [=, this] { grants_[action.slot] = action.grant.raw(); });
            for (uint32_t i = 0; action.kind == TupleAction::Kind::kDrain && i < action.count; ++i)
                arrive(kWay / 2, [this] {
                    uint32_t place = 0;
                    EXPECT_TRUE(receivers_.drained(0, place));
                });
        }
    }

    std::deque<std::unique_ptr<PostedReceive>> receives_;
    PostedReceives posted_{1024};
    Table table_{posted_};
    TupleMatcher<Table> receivers_{table_, 1, kDepth};
    uint64_t grants_[TupleSender::words(kDepth)] = {};
    TupleSenders senders_{grants_, 1, kDepth};
    std::multimap<uint64_t, std::function<void()>> events_;
    uint64_t now_ = 0;
    uint64_t looks_from_ = 0;
    uint64_t length_ = 0;
    uint64_t messages_ = 0;
};

// Most voids in `n` messages none of which can be direct: some to find that out, then one in 32.
constexpr uint64_t seldom(uint64_t n) {
    return 8 + n / kLastPause;
}
// If messages come one by one, the core has noticed an improvement after this many.
constexpr uint32_t kSoon = kLastPause + 1;

TEST_F(TupleTraffic, APingPongCostsAGrantNowAndThen) {
    const Totals some = run(kPingPong, 1000);
    EXPECT_EQ(some.direct, 0u);
    EXPECT_LE(some.voids, seldom(1000));
}

TEST_F(TupleTraffic, WhatIsPostedInTimeIsDirect) {
    const Totals all = run(kOverlapped, 1000);
    EXPECT_EQ(all.direct, 1000u);
    EXPECT_EQ(all.voids, 0u);
}

TEST_F(TupleTraffic, ASenderThatComputesFindsItsGrants) {
    EXPECT_EQ(run({.wait = 10 * kWay}, 1000).direct, 1000u);
}

TEST_F(TupleTraffic, ChangesAreFoundOut) {
    for (int i = 0; i < 4; ++i) {
        EXPECT_LE(run(kPingPong, 500).voids, seldom(500));
        EXPECT_LE(run(kOverlapped, kSoon).voids, 1u);
        const Totals all = run(kOverlapped, 500);
        EXPECT_EQ(all.direct, 500u);
        EXPECT_EQ(all.voids, 0u);
    }
}

// Phases in which all messages could be direct alternate with phases in which none could. Short
// phases have fewer direct messages. Voids never outnumber direct messages by more than the cost of
// finding out.
TEST_F(TupleTraffic, ChangesAllTheTime) {
    constexpr uint32_t kPhases = 50;
    const struct {
        uint32_t length;
        uint64_t direct;  // per cent of those that could be direct, at least
    } phases[] = {{1, 0}, {2, 0}, {5, 40}, {10, 40}, {20, 40}, {50, 65}, {100, 70}, {200, 85}};
    for (const auto& phase : phases) {
        Totals sum;
        for (uint32_t i = 0; i < kPhases; ++i)
            sum = sum + run(kPingPong, phase.length) + run(kOverlapped, phase.length);
        EXPECT_GE(200 * sum.direct, phase.direct * sum.messages) << phase.length;
        EXPECT_LE(sum.voids, sum.direct + seldom(sum.messages)) << phase.length;
    }
}

// Each message could be direct with some probability. If it is low, there are only tries; if it is
// high, most messages that could be direct are.
TEST_F(TupleTraffic, ChangesByChance) {
    const uint64_t seed = number_from_environment("TERN_TEST_SEED", 1);
    SCOPED_TRACE("TERN_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    const struct {
        uint32_t chance;  // per cent
        uint32_t direct;  // per cent, at least
        uint32_t voids;   // per cent, at most
    } cases[] = {{5, 0, 4}, {20, 0, 5}, {80, 65, 25}, {90, 85, 15}, {95, 92, 8}, {98, 96, 4}};
    for (const auto& each : cases) {
        Totals sum;
        for (int i = 0; i < 10'000; ++i)
            sum = sum + run(random.chance(each.chance) ? kOverlapped : kPingPong, 1);
        EXPECT_GE(100 * sum.direct, each.direct * sum.messages) << each.chance;
        EXPECT_LE(100 * sum.voids, each.voids * sum.messages) << each.chance;
    }
}

// The longer the messages, the more often a grant is tried.
TEST_F(TupleTraffic, LongMessagesAreWorthMoreTries) {
    const uint64_t seed = number_from_environment("TERN_TEST_SEED", 1);
    SCOPED_TRACE("TERN_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    for (const uint64_t kibi : {16, 64, 256, 1024}) {
        const Pattern late{.wait = kWay - 1, .length = kibi << 10};
        const Pattern early{.wait = 10 * kWay, .computes = true, .length = kibi << 10};
        const uint64_t pause = std::max<uint64_t>(256 / kibi, 1);
        const Totals none = run(late, 1000);
        EXPECT_LE(none.voids, 8 + 1000 / pause) << kibi;
        run(early, static_cast<uint32_t>(pause));
        EXPECT_EQ(run(early, 100).direct, 100u) << kibi;
        Totals turns;
        for (int i = 0; i < 1000; ++i) turns = turns + run(late, 1) + run(early, 1);
        EXPECT_GE(turns.direct, 990u) << kibi;
        Totals chance;
        for (int i = 0; i < 2000; ++i) chance = chance + run(random.chance(50) ? late : early, 1);
        EXPECT_GE(chance.direct, kibi < 64 ? 100u : kibi < 256 ? 600u : 900u) << kibi;
    }
}

// Receives are posted ahead, and a burst of messages follows: as many are direct as the queue is
// deep. When places in the queue become free, the next messages are on their way already, so
// further grants are useless, unless the messages are far apart.
class TupleBursts : public TupleTraffic, public testing::WithParamInterface<uint32_t> {};

TEST_P(TupleBursts, AreDirectAsFarAsTheQueueIsDeep) {
    const uint64_t most = std::min(GetParam(), kDepth);
    const Pattern polled{.receives = GetParam(), .wait = 10 * kWay};
    const Pattern computed{.receives = GetParam(), .wait = 10 * kWay, .computes = true};
    for (const Pattern& pattern : {polled, computed}) {
        run(kPingPong, 200);
        run(pattern, kSoon + 5);
        const Totals some = run(pattern, 100);
        EXPECT_GE(some.direct, 100 * most);
        EXPECT_LE(some.voids, seldom(some.messages));
    }
}

TEST_P(TupleBursts, AreAllDirectIfTheyTakeTheirTime) {
    const Pattern pattern{.receives = GetParam(), .wait = 10 * kWay, .space = 10 * kWay};
    EXPECT_EQ(run(pattern, 10).direct, 10 * GetParam());
    run(kPingPong, 200);
    run(pattern, kSoon);
    const Totals all = run(pattern, 10);
    EXPECT_EQ(all.direct, all.messages);
    EXPECT_EQ(all.voids, 0u);
}

TEST_P(TupleBursts, ThatAreTooEarlyCostLittle) {
    const Totals some = run({.receives = GetParam(), .wait = kWay - 1}, 100);
    EXPECT_EQ(some.direct, 0u);
    // Both occasions to grant are tried.
    EXPECT_LE(some.voids, 2 * kFirstWidth + 2 * seldom(some.messages));
}

INSTANTIATE_TEST_SUITE_P(Of, TupleBursts, testing::Values(1, 2, 3, 8, 16, 17, 24, 40, 64, 200));

}  // namespace tuple_traffic_test
}  // namespace tern
