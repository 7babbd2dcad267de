// SPDX-License-Identifier: BSD-3-Clause
// In which order transfers are moved on, with and without time for all.
#include "tern/rendezvous/turns.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tern/engine/channel.h"

namespace tern {
namespace {

std::unique_ptr<Channel> channel_of(uint32_t number) {
    return std::make_unique<Channel>(number, PeerAddress{}, Handshake(1, {}, {}, {}, {}));
}

// The names of the transfers that call by call were moved on.
struct TurnsRun {
    struct Moved {
        char name;
        Channel* channel = nullptr;
        Turn turn{};
    };

    std::vector<Moved> all{{'a'}, {'b'}, {'c'}, {'d'}};
    ProgressBudget budget{*find_costs("graphene")};
    Turns<Moved> turns{budget};

    TurnsRun() {
        for (Moved& each : all) turns.add(each);
    }
    // `spends`: the transfer at which the budget is spent, or 0. Those behind it have no time.
    std::string progress(char spends) {
        std::string moved;
        const unsigned count = turns.advance([&](Moved& transfer) -> Step {
            if (budget.over()) return {};
            moved += transfer.name;
            if (transfer.name == spends) budget.copied(uint64_t{1} << 40);
            return {.count = 1};
        });
        EXPECT_EQ(count, moved.size());
        budget.renew();
        return moved;
    }
};

TEST(TurnsTest, ACallBeginsWhereTheBudgetWasSpent) {
    TurnsRun run;
    EXPECT_EQ(run.progress(0), "abcd");
    EXPECT_EQ(run.progress('b'), "ab");
    EXPECT_EQ(run.progress('d'), "cd");
    EXPECT_EQ(run.progress('c'), "abc");
    EXPECT_EQ(run.progress(0), "dabc");
    EXPECT_EQ(run.progress(0), "abcd") << "there was time for all";
}

TEST(TurnsTest, EachHasItsTurnIfEachSpendsTheBudget) {
    TurnsRun run;
    for (char next : std::string("abcdabcd")) EXPECT_EQ(run.progress(next), std::string(1, next));
}

TEST(TurnsTest, ARegistrationThatWasPutOffComesFirst) {
    TurnsRun run;
    std::string moved;
    const auto step = [&](TurnsRun::Moved& transfer) -> Step {
        if (run.budget.over()) return {};
        if (transfer.name != 'b') {
            run.budget.registered(8192);
        } else if (!run.budget.may_register(uint64_t{1} << 40)) {
            return {};
        }
        moved += transfer.name;
        return {.count = 1};
    };
    EXPECT_EQ(run.turns.advance(step), 1u);
    run.budget.renew();
    (void)run.turns.advance(step);
    EXPECT_EQ(moved.substr(0, 2), "ab");
}

TEST(TurnsTest, TransfersMayEndAndBeginMeanwhile) {
    for (size_t ends = 0; ends < 4; ++ends) {
        TurnsRun run;
        TurnsRun::Moved later{'e'};
        std::string moved;
        (void)run.turns.advance([&](TurnsRun::Moved& transfer) {
            moved += transfer.name;
            if (&transfer == &run.all[ends]) {
                EXPECT_EQ(run.turns.remove(transfer), 1u);
                EXPECT_EQ(run.turns.remove(transfer), 0u);
                run.turns.add(later);
                return Step{.count = 1, .next = Next::kOver};
            }
            return Step{.count = 1};
        });
        EXPECT_EQ(moved, "abcd");
        moved.clear();
        run.turns.for_each_ready([&](const TurnsRun::Moved& each) { moved += each.name; });
        std::string left = "abcde";
        left.erase(ends, 1);
        EXPECT_EQ(moved, left);
    }
    TurnsRun run;
    for (auto& each : run.all) (void)run.turns.remove(each);
    EXPECT_TRUE(run.turns.empty());
    EXPECT_EQ(run.progress(0), "");
}

// What each transfer is to say in its next steps.
struct SaidRun : TurnsRun {
    std::array<std::unique_ptr<Channel>, 2> channels{channel_of(0), channel_of(1)};
    std::string says = "rrrr";  // r: is ready, e: waits for an event, o: waits for room

    SaidRun() {
        for (size_t i = 0; i < all.size(); ++i) all[i].channel = channels[i / 2].get();
    }
    Step step(Moved& transfer, std::string& moved) const {
        moved += transfer.name;
        const char said = says[static_cast<size_t>(transfer.name - 'a')];
        return {.next = said == 'e' ? Next::kOnEvent : said == 'o' ? Next::kOnRoom : Next::kAgain};
    }
    std::string moved() {
        std::string moved;
        (void)turns.advance([&](Moved& transfer) { return step(transfer, moved); });
        return moved;
    }
};

TEST(TurnsTest, ATransferThatWaitsForAnEventIsNotLookedAt) {
    SaidRun run;
    run.says = "eree";
    EXPECT_EQ(run.moved(), "abcd");
    EXPECT_EQ(run.moved(), "b");
    run.turns.wake(run.all[3]);
    run.turns.wake(run.all[3]);
    EXPECT_EQ(run.moved(), "bd");
    run.says = "eeee";
    EXPECT_EQ(run.moved(), "b");
    EXPECT_EQ(run.moved(), "");
    EXPECT_FALSE(run.turns.empty());
}

TEST(TurnsTest, AnEventWithinAStepIsNotLost) {
    SaidRun run;
    run.says = "eeee";
    (void)run.turns.advance([&](TurnsRun::Moved& transfer) {
        run.turns.wake(transfer);
        return Step{.next = Next::kOnEvent};
    });
    EXPECT_EQ(run.moved(), "abcd");
    EXPECT_EQ(run.moved(), "");
}

TEST(TurnsTest, OfThoseThatWaitForRoomTheFirstOfEachChannelIsLookedAt) {
    SaidRun run;
    run.says = "oooo";
    EXPECT_EQ(run.moved(), "abcd");
    EXPECT_EQ(run.moved(), "ac");
    EXPECT_EQ(run.moved(), "ac");
    run.turns.wake(run.all[1]);
    EXPECT_EQ(run.moved(), "acb") << "it waits for room and has an event";
    run.says = "eooo";
    EXPECT_EQ(run.moved(), "abc") << "there was room for the first";
    run.says = "eeer";
    EXPECT_EQ(run.moved(),
              "bcd"
              "d")
        << "there is room for all";
    EXPECT_EQ(run.moved(), "d");
    run.says = "oooo";
    for (auto& each : run.all) run.turns.wake(each);
    EXPECT_EQ(run.moved(), "dabc");
    EXPECT_EQ(run.turns.remove(run.all[0]), 1u);
    EXPECT_EQ(run.moved(), "db");
}

}  // namespace
}  // namespace tern
