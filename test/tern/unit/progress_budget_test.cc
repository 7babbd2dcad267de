// SPDX-License-Identifier: BSD-3-Clause
// How much work one call of progress begins.
#include "tern/rendezvous/progress_budget.h"
#include "common/seed.h"

#include <gtest/gtest.h>

#include <random>

namespace tern {
namespace {

const Costs& graphene() {
    return *find_costs("graphene");
}

double registration(uint64_t bytes) {
    const RegistrationCosts& costs = graphene().registration;
    return costs.latency + static_cast<double>(bytes) / costs.bandwidth;
}

// The longest registration does not fit in, behind a short one.
ProgressBudget with_one_put_off() {
    ProgressBudget budget(graphene());
    budget.registered(8192);
    EXPECT_FALSE(budget.over());
    EXPECT_FALSE(budget.may_register(ProgressBudget::longest_registration(graphene())));
    return budget;
}

TEST(ProgressBudgetTest, TheLongestRegistrationMayBeginFirst) {
    ProgressBudget budget(graphene());
    EXPECT_TRUE(budget.may_register(ProgressBudget::longest_registration(graphene())));
    EXPECT_FALSE(budget.over());
}

// Even if it is longer than any should be, because otherwise it would never begin.
TEST(ProgressBudgetTest, AnyRegistrationMayBeginFirst) {
    ProgressBudget budget(graphene());
    EXPECT_TRUE(budget.may_register(uint64_t{1} << 40));
}

TEST(ProgressBudgetTest, ALongRegistrationDoesNotFollowAShortOne) {
    ProgressBudget budget = with_one_put_off();
    EXPECT_TRUE(budget.over());
    EXPECT_FALSE(budget.may_register(4096)) << "it would overtake the one that has been put off";
}

TEST(ProgressBudgetTest, ShortRegistrationsFollowEachOther) {
    ProgressBudget budget(graphene());
    budget.registered(8192);
    EXPECT_TRUE(budget.may_register(8192));
}

TEST(ProgressBudgetTest, WhatIsPutOffComesFirstInTheNextCall) {
    ProgressBudget budget = with_one_put_off();
    budget.renew();
    EXPECT_TRUE(budget.behind());
    EXPECT_FALSE(budget.over());
    EXPECT_TRUE(budget.may_register(ProgressBudget::longest_registration(graphene())));
}

// Even if frames of peers and new transfers have come before it.
// Otherwise a transfer that looks for its pin in each call, and finds none, would never go on.
TEST(ProgressBudgetTest, ARegistrationBeginsHoweverLongLooksTake) {
    Costs costs = graphene();
    costs.registration.look = 2 * kProgressTime;
    ProgressBudget budget(costs);
    int calls = 1;
    for (budget.looked(); !budget.may_register(4096) && calls < 10; ++calls) {
        budget.renew();
        budget.looked();
    }
    EXPECT_LE(calls, 2);
}

// Copies take up to twice as long as when they were measured, with nothing else to do.
TEST(ProgressBudgetTest, CopiesAreTakenToBeSlow) {
    ProgressBudget budget(graphene());
    budget.copied(static_cast<uint64_t>(kProgressTime * graphene().copy.memory_bandwidth / 2) + 1);
    EXPECT_TRUE(budget.over());
}

TEST(ProgressBudgetTest, WatchesCount) {
    ProgressBudget budget(graphene());
    for (int i = 0; i < 30 && !budget.over(); ++i) budget.watched();
    EXPECT_TRUE(budget.over());
}

TEST(ProgressBudgetTest, ARingIsMadeOnceInACall) {
    constexpr uint64_t kRing = 256 << 10;
    ProgressBudget budget(graphene());
    EXPECT_TRUE(budget.may_make_ring(kRing));
    EXPECT_FALSE(budget.over());
    EXPECT_FALSE(budget.may_make_ring(kRing));
    // A process that goes to sleep now would leave the transfer that has got no ring.
    EXPECT_TRUE(budget.leaves_work());
    budget.renew();
    EXPECT_FALSE(budget.leaves_work());
    EXPECT_TRUE(budget.may_make_ring(kRing));
    budget.renew();
    budget.copied(uint64_t{1} << 30);
    EXPECT_FALSE(budget.may_make_ring(kRing));
}

TEST(ProgressBudgetTest, NoOrderOfWorkTakesLongerThanTheLongestRegistration) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    constexpr uint64_t kCopy = 64 << 10;
    const double copy = 2 * static_cast<double>(kCopy) / graphene().copy.memory_bandwidth;
    for (int i = 0; i < 1000; ++i) {
        ProgressBudget budget(graphene());
        double spent = 0;
        for (int j = 0; j < 100; ++j) {
            const uint64_t bytes = 1 + random() % ProgressBudget::longest_registration(graphene());
            if (random() % 2 != 0) {
                if (budget.over()) continue;
                budget.copied(kCopy);
                spent += copy;
            } else if (budget.may_register(bytes)) {
                budget.registered(bytes);
                spent += registration(bytes);
            }
        }
        EXPECT_LE(spent, kLongestProgress + copy);
    }
}

}  // namespace
}  // namespace tern
