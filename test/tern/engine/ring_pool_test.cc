// SPDX-License-Identifier: BSD-3-Clause

// Rings are made when they are needed, and again when they were refused.

#include "tern/rendezvous/ring_pool.h"

#include <cerrno>
#include <thread>

#include "node.h"
#include "verbs_faults.h"

namespace tern::test {
namespace {

constexpr uint32_t kSlots = 64;

TEST(RingPoolTest, ARingIsMadeWhenNoneIsFree) {
    RingPool pool(device().pd.get(), kSlots, 2, nullptr);
    ProgressBudget budget(Costs{});
    RingPool::Ring ring;
    EXPECT_TRUE(pool.may_grow());
    EXPECT_FALSE(pool.lend(ring));
    EXPECT_EQ(pool.registered_bytes(), 0u);
    ASSERT_TRUE(pool.lend(ring, budget));
    EXPECT_EQ(ring.slots, kSlots);
    EXPECT_GE(pool.registered_bytes(), pool.ring_size());
    RingPool::Ring second;
    EXPECT_FALSE(pool.lend(second, budget)) << "one in a call of progress";
    EXPECT_TRUE(pool.may_grow());
    budget.renew();
    EXPECT_TRUE(pool.lend(second, budget));
    EXPECT_FALSE(pool.may_grow());
}

TEST(RingPoolTest, ARingThatIsGivenBackIsLentAgain) {
    RingPool pool(device().pd.get(), kSlots, 2, nullptr);
    RingPool::Ring first;
    pool.grow();
    ASSERT_TRUE(pool.lend(first));
    pool.give_back(first);
    EXPECT_FALSE(pool.may_grow());
    RingPool::Ring again;
    ASSERT_TRUE(pool.lend(again));
    EXPECT_EQ(again.data, first.data);
    RingPool::Ring second;
    pool.grow();
    ASSERT_TRUE(pool.lend(second));
    EXPECT_NE(second.data, first.data);
    EXPECT_FALSE(pool.may_grow());
}

// What cannot be registered now may be later: another process has ended, say.
TEST(RingPoolTest, ARefusedRegistrationIsTriedAgain) {
    constexpr std::chrono::milliseconds kRefusal{20};
    RingPool pool(device().pd.get(), kSlots, 2, nullptr, kRefusal);
    RingPool::Ring ring;
    {
        const VerbsFault fault(Verb::kRegMr, 1, ENOMEM, 1000);
        pool.grow();
        EXPECT_TRUE(pool.refused());
        EXPECT_TRUE(pool.cannot_register());
        EXPECT_FALSE(pool.may_grow());
        std::this_thread::sleep_for(kRefusal);
        EXPECT_TRUE(pool.may_grow());
        EXPECT_FALSE(pool.cannot_register()) << "it is worth a trial";
        pool.grow();
        EXPECT_TRUE(pool.cannot_register());
    }
    {
        // A short ring is enough to go on.
        const VerbsFault fault(Verb::kRegMr, 1, ENOMEM, 3);
        pool.grow();
        EXPECT_EQ(pool.slots(), kSlots / 8);
        ASSERT_TRUE(pool.lend(ring));
        EXPECT_EQ(ring.slots, kSlots / 8);
    }
    // In use, it is not replaced; but there may be another one like it.
    std::this_thread::sleep_for(kRefusal);
    EXPECT_TRUE(pool.may_grow());
    pool.grow();
    EXPECT_EQ(pool.slots(), kSlots / 8);
    RingPool::Ring second;
    ASSERT_TRUE(pool.lend(second));
    EXPECT_FALSE(pool.may_grow()) << "there may be no third one";
    pool.give_back(ring);
    EXPECT_FALSE(pool.may_grow());
    pool.give_back(second);
    // All are free: long ones replace them.
    std::this_thread::sleep_for(kRefusal);
    ASSERT_TRUE(pool.may_grow());
    pool.grow();
    EXPECT_FALSE(pool.refused());
    ASSERT_TRUE(pool.lend(ring));
    EXPECT_EQ(ring.slots, kSlots);
    EXPECT_GE(pool.registered_bytes(), pool.ring_size());
    EXPECT_LT(pool.registered_bytes(), 2 * pool.ring_size()) << "the short ones are gone";
    pool.grow();
    ASSERT_TRUE(pool.lend(second));
    EXPECT_EQ(second.slots, kSlots);
}

TEST(RingPoolTest, PinsAreGivenUpForARing) {
    uint64_t wanted = 0;
    RingPool pool(device().pd.get(), kSlots, 2, [&](uint64_t bytes) {
        wanted += bytes;
        return true;
    });
    const VerbsFault fault(Verb::kRegMr, 1, ENOMEM, 1);
    pool.grow();
    EXPECT_GE(wanted, pool.ring_size());
    EXPECT_FALSE(pool.refused());
    EXPECT_EQ(pool.slots(), kSlots);
}

}  // namespace
}  // namespace tern::test
