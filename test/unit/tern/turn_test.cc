// SPDX-License-Identifier: BSD-3-Clause
// How much work one call of progress begins.
#include "rendezvous/turn.h"

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
Turn with_one_put_off() {
    Turn turn(graphene());
    turn.registered(8192);
    EXPECT_FALSE(turn.over());
    EXPECT_FALSE(turn.may_register(Turn::longest_registration(graphene())));
    return turn;
}

TEST(TurnTest, TheLongestRegistrationMayBeginFirst) {
    Turn turn(graphene());
    EXPECT_TRUE(turn.may_register(Turn::longest_registration(graphene())));
    EXPECT_FALSE(turn.over());
}

// Even if it is longer than any should be, because otherwise it would never begin.
TEST(TurnTest, AnyRegistrationMayBeginFirst) {
    Turn turn(graphene());
    EXPECT_TRUE(turn.may_register(uint64_t{1} << 40));
}

TEST(TurnTest, ALongRegistrationDoesNotFollowAShortOne) {
    Turn turn = with_one_put_off();
    EXPECT_TRUE(turn.over());
    EXPECT_TRUE(turn.put_off());
    EXPECT_FALSE(turn.may_register(4096)) << "it would overtake the one that has been put off";
}

TEST(TurnTest, ShortRegistrationsFollowEachOther) {
    Turn turn(graphene());
    turn.registered(8192);
    EXPECT_TRUE(turn.may_register(8192));
}

TEST(TurnTest, WhatIsPutOffComesFirstInTheNextTurn) {
    Turn turn = with_one_put_off();
    turn.renew();
    EXPECT_TRUE(turn.behind());
    EXPECT_FALSE(turn.over());
    EXPECT_FALSE(turn.put_off());
    EXPECT_TRUE(turn.may_register(Turn::longest_registration(graphene())));
}

// Even if frames of peers and new transfers have come before it.
TEST(TurnTest, WhatIsPutOffComesBeforeRings) {
    Turn turn = with_one_put_off();
    turn.renew();
    EXPECT_FALSE(turn.may_provide());
    turn.watched();
    EXPECT_TRUE(turn.may_register(Turn::longest_registration(graphene())));
    turn.renew();
    EXPECT_TRUE(turn.may_provide()) << "nobody has asked";
}

// Copies take up to twice as long as when they were measured, with nothing else to do.
TEST(TurnTest, CopiesAreTakenToBeSlow) {
    Turn turn(graphene());
    turn.copied(static_cast<uint64_t>(Turn::kTime * graphene().copy.memory_bandwidth / 2) + 1);
    EXPECT_TRUE(turn.over());
}

TEST(TurnTest, WatchesCount) {
    Turn turn(graphene());
    for (int i = 0; i < 30 && !turn.over(); ++i) turn.watched();
    EXPECT_TRUE(turn.over());
}

TEST(TurnTest, PagesAreProvidedOnceInATurn) {
    Turn turn(graphene());
    EXPECT_TRUE(turn.may_provide());
    turn.provided();
    EXPECT_FALSE(turn.over());
    EXPECT_FALSE(turn.may_provide());
    turn.renew();
    EXPECT_TRUE(turn.may_provide());
    turn.copied(uint64_t{1} << 30);
    EXPECT_FALSE(turn.may_provide());
}

TEST(TurnTest, NoOrderOfWorkTakesLongerThanTheLongestRegistration) {
    const auto seed = std::random_device()();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    constexpr uint64_t kCopy = 64 << 10;
    const double copy = 2 * static_cast<double>(kCopy) / graphene().copy.memory_bandwidth;
    for (int i = 0; i < 1000; ++i) {
        Turn turn(graphene());
        double spent = 0;
        for (int j = 0; j < 100; ++j) {
            const uint64_t bytes = 1 + random() % Turn::longest_registration(graphene());
            if (random() % 2 != 0) {
                if (turn.over()) continue;
                turn.copied(kCopy);
                spent += copy;
            } else if (turn.may_register(bytes)) {
                turn.registered(bytes);
                spent += registration(bytes);
            }
        }
        EXPECT_LE(spent, Turn::kLongest + copy);
    }
}

}  // namespace
}  // namespace tern
