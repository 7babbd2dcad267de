// SPDX-License-Identifier: BSD-3-Clause
// The turns of simulated ranks, and their neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bench/sim/grid.h"
#include "bench/sim/schedule.h"

namespace bench::sim {
namespace {

constexpr uint64_t kStart = 1000;

// Polls that find nothing, each fifth longer, until the rank may sleep. Returns when it does.
uint64_t poll_until_settled(Schedule& schedule, uint32_t rank, uint64_t time) {
    for (uint32_t i = 0;; ++i) {
        time += i % 5 == 4 ? 100 : 10;
        if (schedule.ran(rank, time, true)) return time;
    }
}

TEST(SimSchedule, TheLeastClockRunsAndOfSeveralTheLowestNumber) {
    Schedule schedule(3, kStart);
    EXPECT_EQ(schedule.next(), 0U);
    schedule.ran(0, kStart + 20, false);
    EXPECT_EQ(schedule.next(), 1U);
    schedule.ran(1, kStart + 10, false);
    EXPECT_EQ(schedule.next(), 2U);
    schedule.ran(2, kStart + 20, false);
    EXPECT_EQ(schedule.next(), 1U);
    schedule.ran(1, kStart + 10, false);  // each step takes time
    EXPECT_EQ(schedule.next_time(), kStart + 11);
}

TEST(SimSchedule, ARankSettlesAfterTwoEqualCyclesOfPolls) {
    Schedule schedule(1, kStart);
    EXPECT_EQ(poll_until_settled(schedule, 0, kStart), kStart + 2 * 140);
}

TEST(SimSchedule, ASleeperWakesLessThanACycleBeforeWhatItMayFind) {
    for (uint64_t wait = 1; wait < 5000; wait += 7) {
        Schedule schedule(1, kStart);
        const uint64_t slept_at = poll_until_settled(schedule, 0, kStart);
        schedule.sleep(0);
        EXPECT_TRUE(schedule.may_find(0, slept_at + wait));
        EXPECT_LE(schedule.next_time(), slept_at + wait);
        EXPECT_GT(schedule.next_time() + 2 * 140, slept_at + wait);
        EXPECT_EQ(schedule.slept(0), schedule.next_time() - slept_at);
        EXPECT_FALSE(schedule.is_asleep(0));
        EXPECT_FALSE(schedule.may_find(0, slept_at + wait));  // it is awake
    }
}

TEST(SimSchedule, PhasesAreSpreadOverACycleOfPolls) {
    Schedule schedule(1, kStart);
    constexpr uint64_t kWait = 10'000;
    uint64_t sum = 0;
    constexpr uint32_t kWaits = 1000;
    for (uint32_t i = 0; i < kWaits; ++i) {
        const uint64_t slept_at = poll_until_settled(schedule, 0, schedule.next_time());
        schedule.sleep(0);
        schedule.may_find(0, slept_at + kWait);
        sum += slept_at + kWait - schedule.next_time();
    }
    EXPECT_NEAR(static_cast<double>(sum) / kWaits, 140.0 / 2, 5);
}

TEST(SimSchedule, ASleeperWakesAtLast) {
    Schedule schedule(1, kStart);
    const uint64_t slept_at = poll_until_settled(schedule, 0, kStart);
    EXPECT_FALSE(schedule.may_find_at_last(0));  // it is awake
    schedule.sleep(0);
    EXPECT_EQ(schedule.next_time(), slept_at + Schedule::kLongest);
    EXPECT_TRUE(schedule.may_find_at_last(0));
    EXPECT_LE(schedule.next_time(), slept_at + Schedule::kLongest);
    // It polls for long, as what it waits for may be what it looks at seldom.
    uint32_t polls = 1;
    while (!schedule.ran(0, schedule.next_time() + 10, true)) ++polls;
    EXPECT_EQ(polls, Waiting::kMost);
}

TEST(SimGrid, EdgesDifferAsLittleAsPossible) {
    using Edges = std::vector<uint32_t>;
    EXPECT_EQ(edges_of(8, 3), (Edges{2, 2, 2}));
    EXPECT_EQ(edges_of(8, 2), (Edges{4, 2}));
    EXPECT_EQ(edges_of(1024, 2), (Edges{32, 32}));
    EXPECT_EQ(edges_of(1024, 3), (Edges{16, 8, 8}));
    EXPECT_EQ(edges_of(7, 2), (Edges{7, 1}));
    EXPECT_EQ(edges_of(12, 2), (Edges{4, 3}));
}

TEST(SimGrid, NeighboursAreMutual) {
    for (const uint32_t ranks : {4U, 7U, 8U, 12U, 64U, 100U}) {
        for (const uint32_t dimensions : {2U, 3U}) {
            const auto edges = edges_of(ranks, dimensions);
            for (uint32_t rank = 0; rank < ranks; ++rank) {
                for (const uint32_t peer : neighbours(rank, edges)) {
                    ASSERT_LT(peer, ranks);
                    ASSERT_NE(peer, rank);
                    const auto back = neighbours(peer, edges);
                    const auto there = neighbours(rank, edges);
                    EXPECT_EQ(std::ranges::count(back, rank), std::ranges::count(there, peer));
                }
            }
        }
    }
}

}  // namespace
}  // namespace bench::sim
