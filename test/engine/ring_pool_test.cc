// SPDX-License-Identifier: BSD-3-Clause

// Rings are made in steps, each of which takes the kernel little time.

#include "rendezvous/ring_pool.h"

#include <sys/resource.h>

#include "node.h"

namespace tern::test {
namespace {

constexpr uint32_t kSlots = 64;

// Of this thread.
long faults() {
    rusage usage{};
    EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_minflt;
}

TEST(RingPoolTest, MakesARingInSteps) {
    RingPool pool(device().pd.get(), kSlots, 2);
    RingPool::Ring ring;
    EXPECT_TRUE(pool.may_grow());
    EXPECT_FALSE(pool.lend(ring));
    int steps = 0;
    for (; !pool.provided(); ++steps) {
        const long before = faults();
        pool.provide();
        EXPECT_LE(faults() - before, 16);
        EXPECT_FALSE(pool.lend(ring));
        EXPECT_EQ(pool.registered_bytes(), 0u);
        ASSERT_LT(steps, 1000);
    }
    const long before = faults();
    pool.grow();
    EXPECT_LE(faults() - before, 16) << "the pages are there";
    EXPECT_GE(pool.registered_bytes(), pool.ring_size());
    EXPECT_FALSE(pool.may_grow()) << "one is free";
    ASSERT_TRUE(pool.lend(ring));
    EXPECT_EQ(ring.slots, kSlots);
    EXPECT_TRUE(pool.may_grow());
}

TEST(RingPoolTest, ARingThatIsGivenBackNeedsNoSteps) {
    RingPool pool(device().pd.get(), kSlots, 2);
    RingPool::Ring first;
    pool.grow();
    ASSERT_TRUE(pool.lend(first));
    pool.provide();
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

}  // namespace
}  // namespace tern::test
