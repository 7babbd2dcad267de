// SPDX-License-Identifier: BSD-3-Clause
// Which tuples have a queue.
#include <gtest/gtest.h>

#include "tern/tupleq/core/policy.h"

namespace tern {
namespace {

constexpr uint64_t kLong = 10'000;

class TuplePolicyTest : public testing::Test {
  protected:
    // Returns the number of messages until the tuple is worth a queue; 0: never worth one.
    int heat(uint32_t peer, uint64_t tag, uint64_t length = kLong, bool expected = true) {
        for (int i = 1; i <= 1000; ++i)
            if (policy_.worth(peer, tag, length, expected)) return i;
        return 0;
    }

    void wait(int messages) {
        for (int i = 0; i < messages; ++i) policy_.worth(3, 99, 0, false);
    }

    TuplePolicy policy_{{.after = 4, .least = 4096, .idle = 50}, 2};
};

TEST_F(TuplePolicyTest, ManyLongMessagesThatAreExpectedMakeATuple) {
    EXPECT_EQ(heat(1, 10), 4);
    EXPECT_EQ(heat(1, 11, 4096), 4);
    EXPECT_EQ(heat(1, 12, 4095), 0);
    EXPECT_EQ(heat(1, 14, 4 << 20), 4);
    EXPECT_EQ(heat(1, 15, (4 << 20) + 1), 0) << "the wire would be busy for too long";
    EXPECT_EQ(heat(1, 13, kLong, false), 0);
}

TEST_F(TuplePolicyTest, WhoComesWhenAPeerIsGoneIsNoSecondSender) {
    EXPECT_EQ(heat(1, 10), 4);
    policy_.gone(1);
    EXPECT_EQ(heat(2, 10), 4);
    policy_.worth(3, 10, kLong, true);
    policy_.gone(2);
    EXPECT_EQ(heat(3, 10), 0) << "there were two";
    policy_.bound(0, 1, 11);
    policy_.missed(0);
    policy_.gone(1);
    policy_.freed(0);
    EXPECT_EQ(heat(2, 11), 4);
}

TEST_F(TuplePolicyTest, ATagOfTwoPeersIsNone) {
    policy_.worth(1, 10, kLong, true);
    policy_.worth(2, 10, 0, false);
    EXPECT_EQ(heat(1, 10), 0);
    EXPECT_EQ(heat(2, 10), 0);
}

TEST_F(TuplePolicyTest, TheUselessGiveWayTheLeastRecentlyUsefulFirst) {
    policy_.bound(0, 1, 10);
    policy_.bound(1, 1, 11);
    heat(1, 12);
    EXPECT_EQ(policy_.victim(12), TuplePolicy::kNone);  // both are in use
    EXPECT_EQ(heat(1, 12), 4);                          // begins anew without a victim
    policy_.used(1);
    policy_.used(0);
    wait(100);
    policy_.missed(1);  // does not count as use
    EXPECT_EQ(policy_.victim(12), 1);
    EXPECT_EQ(policy_.victim(12), TuplePolicy::kNone);  // queue 1 is not free yet
    policy_.freed(1);
    policy_.bound(1, 1, 12);
    EXPECT_EQ(policy_.victim(13), 0);
}

TEST_F(TuplePolicyTest, AQueueThatNobodyWantsIsLeftWhereItIs) {
    policy_.bound(0, 1, 10);
    for (int i = 0; i < 1000; ++i) policy_.missed(0);
    policy_.used(0);
    wait(99);
    EXPECT_EQ(policy_.victim(12), TuplePolicy::kNone);
    wait(1);
    EXPECT_EQ(policy_.victim(12), 0);
}

TEST_F(TuplePolicyTest, WhoMadeLittleOfItsQueueHasToWaitForTheNext) {
    const auto lose = [this](int uses, int misses) {
        policy_.bound(0, 1, 10);
        for (int i = 0; i < uses; ++i) policy_.used(0);
        for (int i = 0; i < misses; ++i) policy_.missed(0);
        wait(100);
        EXPECT_EQ(policy_.victim(12), 0);
        policy_.freed(0);
        return heat(1, 10);
    };
    EXPECT_EQ(lose(3, 4), 8);
    EXPECT_EQ(lose(0, 1), 16);
    EXPECT_EQ(lose(5, 5), 4);
    EXPECT_EQ(lose(0, 1), 8);
}

TEST_F(TuplePolicyTest, WhatIsRefusedHasToWaitToo) {
    EXPECT_EQ(heat(1, 10), 4);
    policy_.bound(0, 1, 10);
    policy_.discourage(0);
    policy_.freed(0);
    EXPECT_EQ(heat(1, 10), 8);
}

TEST_F(TuplePolicyTest, ManyTagsPushOutTheOldOnes) {
    for (int i = 0; i < 3; ++i) policy_.worth(1, 10, kLong, true);
    for (uint64_t tag = 1000; tag < 20'000; ++tag) policy_.worth(1, tag, kLong, true);
    EXPECT_EQ(heat(1, 10), 4);
}

}  // namespace
}  // namespace tern
