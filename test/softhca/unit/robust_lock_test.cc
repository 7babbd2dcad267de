// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/robust_lock.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace softhca {
namespace {

struct Owner {
    uint32_t mine;
    std::set<uint32_t> dead;
    uint32_t tag() const { return mine; }
    bool owner_dead(uint32_t tag) const { return dead.contains(tag); }
    void yield(uint32_t) const { std::this_thread::yield(); }
};

TEST(RobustLock, ExcludesOthers) {
    RobustLock lock;
    uint64_t counter = 0;
    constexpr uint64_t kRounds = 20000;
    std::vector<std::thread> threads;
    for (uint32_t t = 1; t <= 4; ++t) {
        threads.emplace_back([&, t] {
            for (uint64_t i = 0; i < kRounds; ++i) {
                lock.lock(Owner{t, {}}, [] { FAIL() << "nobody died"; });
                ++counter;
                lock.unlock();
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(counter, 4 * kRounds);
    EXPECT_EQ(lock.owner(), 0u);
}

TEST(RobustLock, IsTakenOverFromADeadOwnerAndRepaired) {
    RobustLock lock;
    lock.lock(Owner{1, {}}, [] {});
    int repairs = 0;
    lock.lock(Owner{2, {1}}, [&] { ++repairs; });
    EXPECT_EQ(repairs, 1);
    EXPECT_EQ(lock.owner(), 2u);
    lock.unlock();
    lock.lock(Owner{3, {1, 2}}, [&] { ++repairs; });
    EXPECT_EQ(repairs, 1) << "a lock that was let go needs no repair";
}

TEST(RobustLock, IsNotTakenFromALivingOwner) {
    RobustLock lock;
    lock.lock(Owner{1, {}}, [] {});
    std::atomic<bool> taken{false};
    std::thread waiter([&] {
        lock.lock(Owner{2, {}}, [] { FAIL() << "the owner lives"; });
        taken = true;
        lock.unlock();
    });
    for (int i = 0; i < 1000; ++i) {
        std::this_thread::yield();
        ASSERT_FALSE(taken);
    }
    lock.unlock();
    waiter.join();
    EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace softhca
