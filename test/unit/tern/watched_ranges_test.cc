// SPDX-License-Identifier: BSD-3-Clause
// The bookkeeping of monitors: watched ranges, and reported changes.
#include "pinning/watch/watched_ranges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bitset>
#include <random>
#include <thread>
#include <vector>

#include "pinning/watch/inbox.h"
#include "seed.h"

namespace tern {
namespace {

TEST(WatchedRanges, AreASetOfAddresses) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    constexpr uint64_t kEnd = 64;
    WatchedRanges ranges;
    std::bitset<kEnd> truth;
    for (int step = 0; step < 20000; ++step) {
        const uint64_t start = random() % kEnd;
        const uint64_t end = start + 1 + random() % std::min<uint64_t>(16, kEnd - start);
        const bool add = random() % 2 == 0;
        if (add)
            ranges.add(start, end);
        else
            ranges.remove(start, end);
        for (uint64_t i = start; i < end; ++i) truth[i] = add;
        size_t runs = 0;
        for (uint64_t i = 0; i < kEnd; ++i) {
            ASSERT_EQ(ranges.contains(i, i + 1), truth[i]) << i;
            runs += truth[i] && (i == 0 || !truth[i - 1]);
        }
        ASSERT_EQ(ranges.size(), runs) << "those that touch are one";
        bool all = true;
        for (uint64_t i = start; i < kEnd; ++i) {
            all = all && truth[i];
            ASSERT_EQ(ranges.contains(start, i + 1), all);
        }
        if (runs == 0) continue;
        const auto [first, last] = ranges.after(start);
        ASSERT_TRUE(truth[first] && (first == 0 || !truth[first - 1]) && last > first);
    }
}

TEST(Inbox, KeepsOrderAndLosesNothingSilently) {
    Inbox inbox;
    uint64_t next = 0;
    const auto expect_next = [&](const MemoryChange& change) { EXPECT_EQ(change.start, next++); };
    for (uint64_t i = 0; i < 1000; ++i) {
        EXPECT_TRUE(inbox.empty());
        inbox.put({i, i + 1, false, false});
        EXPECT_FALSE(inbox.empty());
        EXPECT_TRUE(inbox.take_all(expect_next));
    }
    EXPECT_EQ(next, 1000u);
    for (uint64_t i = 0; i < 1000; ++i) inbox.put({5, 6, false, false});
    bool all = false;
    inbox.take_all([&](const MemoryChange& change) { all = all || change.end == UINT64_MAX; });
    EXPECT_TRUE(all);
    EXPECT_TRUE(inbox.empty());
}

TEST(Inbox, IsForSeveralThreads) {
    constexpr uint64_t kThreads = 3;
    constexpr uint64_t kEach = 50000;
    Inbox inbox;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> told[kThreads];
    for (auto& each : told) each = 0;
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (uint64_t i = 1; i <= kEach; ++i) {
                inbox.put({t, i, false, false});
                told[t] = i;
            }
        });
    // If take_all() returns true, it has passed on all changes put before it, or a change of
    // everything.
    uint64_t seen[kThreads] = {};
    uint64_t last[kThreads] = {};  // queued changes may follow a change of everything
    bool over = false;
    while (!over) {
        over = done;
        uint64_t before[kThreads];
        for (uint64_t t = 0; t < kThreads; ++t) before[t] = told[t];
        const bool ended = inbox.take_all([&](const MemoryChange& change) {
            if (change.end == UINT64_MAX) {
                // A thread may have put one change more than told[] says.
                for (uint64_t t = 0; t < kThreads; ++t) seen[t] = std::max(seen[t], told[t] + 1);
                return;
            }
            ASSERT_GT(change.end, last[change.start]) << "out of order";
            last[change.start] = change.end;
            seen[change.start] = std::max(seen[change.start], change.end);
        });
        for (uint64_t t = 0; t < kThreads; ++t) ASSERT_TRUE(!ended || seen[t] >= before[t]);
        if (!done) done = told[0] + told[1] + told[2] == kThreads * kEach;
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tern
