// SPDX-License-Identifier: BSD-3-Clause
// The bookkeeping of monitors: watched ranges, and reported changes.
#include "tern/pinning/watch/watched_ranges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bitset>
#include <random>
#include <thread>
#include <vector>

#include "common/seed.h"
#include "tern/pinning/watch/monitor.h"
#include "tern/pinning/watch/userfault_source.h"

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
        ASSERT_GE(ranges.size(), runs) << "those that only touch stay apart";
        bool all = true;
        for (uint64_t i = start; i < kEnd; ++i) {
            all = all && truth[i];
            ASSERT_EQ(ranges.contains(start, i + 1), all);
        }
        if (runs == 0) continue;
        const auto [first, last] = ranges.after(start);
        ASSERT_TRUE(truth[first] && last > first);
        const auto [from, to] = ranges.at(start);
        ASSERT_EQ(to != 0, truth[start]);
        ASSERT_TRUE(to == 0 || (from <= start && start < to));
    }
}

TEST(WatchedRanges, ThatTouchStayApart) {
    WatchedRanges ranges;
    ranges.add(10, 20);
    ranges.add(20, 30);
    EXPECT_EQ(ranges.size(), 2u);
    EXPECT_TRUE(ranges.contains(12, 28));
    ranges.add(12, 13);
    EXPECT_EQ(ranges.size(), 2u);
    ranges.add(19, 21);
    EXPECT_EQ(ranges.size(), 1u);
    EXPECT_EQ(ranges.at(15), std::make_pair(uint64_t{10}, uint64_t{30}));
}

TEST(NoisyMappings, AreNotWatchedForAWhile) {
    using Noisy = NoisyMappings;
    Noisy noisy;
    Noisy::Time now{std::chrono::hours(1)};
    const auto change = [&](uint64_t start, unsigned times, std::chrono::microseconds apart) {
        bool any = false;
        for (unsigned i = 0; i < times; ++i, now += apart)
            any = noisy.count(start, start + 10, now);
        return any;
    };
    // Seldom enough, for ever.
    EXPECT_FALSE(change(100, 5000, std::chrono::milliseconds(6)));
    EXPECT_FALSE(noisy.has(100, 110, now));
    Noisy::Clock::duration quiet = std::chrono::seconds(kNoisyTime);
    for (int round = 0; round < 12; ++round) {
        now += std::chrono::seconds(2);
        EXPECT_FALSE(change(100, kNoisyChanges, std::chrono::microseconds(10)));
        EXPECT_FALSE(change(200, kNoisyChanges, std::chrono::microseconds(10)));
        EXPECT_TRUE(change(100, 1, std::chrono::microseconds(0)));
        EXPECT_TRUE(noisy.has(109, 300, now));
        EXPECT_FALSE(noisy.has(110, 300, now)) << "the other mapping";
        now += quiet - std::chrono::milliseconds(1);
        EXPECT_TRUE(noisy.has(100, 101, now)) << round;
        now += std::chrono::milliseconds(1);
        EXPECT_FALSE(noisy.has(100, 101, now)) << round;
        quiet = std::min<Noisy::Clock::duration>(2 * quiet, Noisy::kLongest);
    }
    // Many other mappings do not displace one that is not watched now.
    EXPECT_TRUE(change(100, kNoisyChanges + 1, std::chrono::microseconds(1)));
    for (uint64_t i = 0; i < 1000; ++i) EXPECT_FALSE(change(1000 + 10 * i, 1, {}));
    EXPECT_TRUE(noisy.has(100, 110, now));
}

TEST(NoisyMappings, LeaveTheirNeighboursAlone) {
    NoisyMappings noisy;
    NoisyMappings::Time now{std::chrono::hours(1)};
    noisy.allow(0);
    EXPECT_TRUE(noisy.count(0, 1000, now));
    now += std::chrono::seconds(kNoisyTime);
    // Others have the rest of the addresses now.
    EXPECT_TRUE(noisy.count(10, 20, now));
    EXPECT_TRUE(noisy.has(15, 16, now));
    EXPECT_FALSE(noisy.has(500, 510, now));
    // Its own neighbours join it, and their time is its own.
    EXPECT_TRUE(noisy.count(15, 30, now));
    EXPECT_TRUE(noisy.has(10, 11, now));
    EXPECT_TRUE(noisy.has(29, 30, now));
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
