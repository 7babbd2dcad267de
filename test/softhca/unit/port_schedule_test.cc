// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/port_schedule.h"
#include "common/seed.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace softhca {
namespace {

TEST(PortSchedule, FillsThePausesBetweenBookings) {
    PortSchedule port;
    EXPECT_EQ(port.reserve(0, 100, 50), 100u);
    EXPECT_EQ(port.reserve(0, 200, 50), 200u);
    EXPECT_EQ(port.reserve(0, 0, 100), 0u) << "as long as the pause";
    EXPECT_EQ(port.reserve(0, 0, 60), 200u) << "50 ns from 150 on and 10 from 250 on";
    EXPECT_EQ(port.busy_until(), 260u);
    EXPECT_EQ(port.reserve(0, 0, 1), 260u);
}

TEST(PortSchedule, TakesNoTimeForNothing) {
    PortSchedule port;
    EXPECT_EQ(port.reserve(0, 77, 0), 77u);
    EXPECT_EQ(port.busy_until(), 0u);
}

TEST(PortSchedule, KeepsWhatIsOverForMembersThatAreBehind) {
    PortSchedule port;
    port.reserve(0, 0, 100);
    EXPECT_EQ(port.reserve(1000, 1000, 10), 1000u);
    EXPECT_EQ(port.reserve(50, 50, 10), 100u);
    EXPECT_EQ(port.busy_until(), 1010u);
    port.clear();
    EXPECT_EQ(port.reserve(0, 0, 10), 0u);
}

TEST(PortSchedule, GivesUpPausesThatAreOverFirst) {
    PortSchedule port;
    constexpr uint64_t kBookings = 1000;
    for (uint64_t i = 0; i < kBookings; ++i) EXPECT_EQ(port.reserve(i * 100, i * 100, 10), i * 100);
    EXPECT_EQ(port.reserve(0, (kBookings - 2) * 100, 20), (kBookings - 2) * 100 + 10)
        << "the last pauses are there";
}

// Each ns is a place of a vector; a booking takes the first free ones.
TEST(PortSchedule, AgreesWithACalendarOfSingleNanoseconds) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937_64 random(seed);
    for (int round = 0; round < 200; ++round) {
        PortSchedule port;
        std::vector<bool> busy(20'000);
        for (int i = 0; i < 40; ++i) {
            const uint64_t earliest = random() % 4000, work = 1 + random() % 200;
            uint64_t end = earliest;
            for (uint64_t left = work; left != 0; ++end) {
                if (busy[end]) continue;
                busy[end] = true;
                --left;
            }
            ASSERT_EQ(port.reserve(0, earliest, work), end - work);
        }
    }
}

TEST(PortSchedule, ManyPausesNeverGiveMoreThanTheBandwidth) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937_64 random(seed);
    PortSchedule port;
    uint64_t booked = 0;
    for (int i = 0; i < 5000; ++i) {
        const uint64_t work = 1 + random() % 100;
        port.reserve(0, random() % 1'000'000, work);
        booked += work;
        ASSERT_GE(port.busy_until(), booked);
    }
}

}  // namespace
}  // namespace softhca
