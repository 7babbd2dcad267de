// SPDX-License-Identifier: BSD-3-Clause
// Whose turn it is in a simulation.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "bench/sim/polling_schedule.h"

namespace bench::sim {
namespace {

constexpr uint64_t kBefore = PollingSchedule::kPolled;  // of the first skip
constexpr uint64_t kMostBefore = kBefore + PollingSchedule::kPhases;

TEST(SimPollingSchedule, TheLeastClockRunsAndOfSeveralTheLowestRank) {
    PollingSchedule schedule(3, 100);
    EXPECT_EQ(schedule.next(), 0U);
    schedule.ran(0, 120, false);
    EXPECT_EQ(schedule.next(), 1U);
    schedule.ran(1, 110, false);
    EXPECT_EQ(schedule.next(), 2U);
    schedule.ran(2, 110, false);
    EXPECT_EQ(schedule.next(), 1U);
    EXPECT_EQ(schedule.time(1), 110U);
}

TEST(SimPollingSchedule, AStepTakesTime) {
    PollingSchedule schedule(2, 100);
    schedule.ran(0, 100, true);
    EXPECT_EQ(schedule.time(0), 101U);
    EXPECT_EQ(schedule.next(), 1U);
}

TEST(SimPollingSchedule, IdleRanksSkipToShortlyBeforeTheNextEventAndKeepTheirPhases) {
    PollingSchedule schedule(2, 100);
    schedule.ran(0, 110, true);
    schedule.ran(1, 117, true);
    schedule.skip(900);
    EXPECT_EQ(schedule.time(0), 900 - kBefore);
    EXPECT_EQ(schedule.time(1), 907 - kBefore);
    schedule.skip(900);
    EXPECT_EQ(schedule.time(0), 900 - kBefore) << "once";
}

TEST(SimPollingSchedule, ARankThatIsBusyIsWaitedForAndNotMoved) {
    PollingSchedule schedule(2, 100);
    schedule.ran(0, 110, true);
    schedule.ran(1, 800, false);
    schedule.skip(900);
    EXPECT_EQ(schedule.time(0), 800 - kBefore);
    EXPECT_EQ(schedule.time(1), 800U);
}

TEST(SimPollingSchedule, RanksPollNowAndThenWhileTheyWait) {
    PollingSchedule schedule(1, 100);
    schedule.ran(0, 110, true);
    schedule.skip(100'000);
    EXPECT_EQ(schedule.time(0), 110 + PollingSchedule::kMostSkipped);
}

TEST(SimPollingSchedule, IfExactTimesDoNotMatterRanksGoOnToTheEvent) {
    PollingSchedule schedule(2, 100);
    schedule.ran(0, 110, true);
    schedule.ran(1, 117, true);
    schedule.skip(100'000, false);
    EXPECT_EQ(schedule.time(0), 100'000U);
    EXPECT_EQ(schedule.time(1), 100'007U);
}

TEST(SimPollingSchedule, ThePhasesOfWaitsDiffer) {
    PollingSchedule schedule(1, 100);
    schedule.ran(0, 110, true);
    schedule.skip(900);
    EXPECT_EQ(schedule.time(0), 900 - kBefore);
    schedule.ran(0, 910, true);
    schedule.skip(1700);
    EXPECT_LT(schedule.time(0), 1700 - kBefore);
    EXPECT_GE(schedule.time(0), 1700 - kMostBefore);
}

TEST(SimPollingSchedule, NothingIsSkippedWithoutAnEventOrIfItIsNear) {
    PollingSchedule schedule(2, 100);
    schedule.ran(0, 110, true);
    schedule.ran(1, 110, true);
    schedule.skip(PollingSchedule::kNever);
    EXPECT_EQ(schedule.time(0), 110U);
    schedule.skip(110 + kMostBefore);
    EXPECT_EQ(schedule.time(0), 110U);
    schedule.skip(0);
    EXPECT_EQ(schedule.time(0), 110U);
}

// Ranks that work and wait at random: a turn is never before an earlier one's, no event is skipped,
// and a rank that works is never moved.
TEST(SimPollingSchedule, TimeNeverGoesBackAndNoEventIsMissed) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&random](uint64_t bound) { return random() % bound; };
    for (int round = 0; round < 200; ++round) {
        const auto ranks = static_cast<uint32_t>(1 + below(6));
        PollingSchedule schedule(ranks, 1000);
        std::vector<bool> idle(ranks, false);
        uint64_t last = 0;
        uint64_t event = 1000 + below(5000);
        for (int step = 0; step < 300; ++step) {
            std::vector<uint64_t> before(ranks);
            for (uint32_t rank = 0; rank < ranks; ++rank) before[rank] = schedule.time(rank);
            schedule.skip(event, below(2) == 0);
            for (uint32_t rank = 0; rank < ranks; ++rank) {
                if (!idle[rank]) {
                    ASSERT_EQ(schedule.time(rank), before[rank]);
                }
            }
            const uint32_t rank = schedule.next();
            const uint64_t now = schedule.time(rank);
            ASSERT_GE(now, last);
            ASSERT_TRUE(now <= event || now == before[rank]) << "an event is skipped";
            last = now;
            if (event <= now) event = now + 1 + below(5000);
            idle[rank] = below(2) == 0;
            schedule.ran(rank, now + below(50), idle[rank]);
        }
    }
}

}  // namespace
}  // namespace bench::sim
