// SPDX-License-Identifier: BSD-3-Clause
// In which order transfers are moved on, with and without time for all.
#include "tern/rendezvous/turns.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tern {
namespace {

// The names of the transfers that call by call were moved on.
struct TurnsRun {
    struct Moved {
        char name;
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
        const unsigned count = turns.advance([&](Moved& transfer) -> unsigned {
            if (budget.over()) return 0;
            moved += transfer.name;
            if (transfer.name == spends) budget.copied(uint64_t{1} << 40);
            return 1;
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
    const auto step = [&](TurnsRun::Moved& transfer) -> unsigned {
        if (run.budget.over()) return 0;
        if (transfer.name != 'b') {
            run.budget.registered(8192);
        } else if (!run.budget.may_register(uint64_t{1} << 40)) {
            return 0;
        }
        moved += transfer.name;
        return 1;
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
            }
            return 1u;
        });
        EXPECT_EQ(moved, "abcd");
        moved.clear();
        for (const TurnsRun::Moved* each : run.turns) moved += each->name;
        std::string left = "abcde";
        left.erase(ends, 1);
        EXPECT_EQ(moved, left);
    }
    TurnsRun run;
    for (auto& each : run.all) (void)run.turns.remove(each);
    EXPECT_TRUE(run.turns.empty());
    EXPECT_EQ(run.progress(0), "");
}

}  // namespace
}  // namespace tern
