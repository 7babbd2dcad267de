// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/timers.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(AlarmTest, TheFirstDeadlineCounts) {
    Alarm alarm;
    EXPECT_EQ(alarm.deadline(), UINT64_MAX);
    alarm.set(UINT64_MAX);
    EXPECT_EQ(alarm.deadline(), UINT64_MAX);
    alarm.set(30);
    alarm.wake_at(20);
    alarm.set(25);
    alarm.wake_at(40);
    EXPECT_EQ(alarm.deadline(), 20u);
    alarm.clear();
    EXPECT_EQ(alarm.deadline(), UINT64_MAX);
}

TEST(AlarmTest, IsUrgentWhilePacketsAreExpected) {
    Alarm alarm;
    alarm.set(30);
    EXPECT_FALSE(alarm.urgent());  // no packet will come for it
    alarm.expect_packets();
    EXPECT_TRUE(alarm.urgent());
    // Nothing waits for the packets.
    alarm.clear();
    EXPECT_FALSE(alarm.urgent());
    alarm.wake_at(UINT64_MAX);
    EXPECT_FALSE(alarm.urgent());
    alarm.set(30);
    EXPECT_TRUE(alarm.urgent());
}

TEST(AlarmTest, IsUrgentWhileConnectionsAreOver) {
    Alarm alarm;
    alarm.set_ended(true);
    EXPECT_TRUE(alarm.urgent());  // with neither packets nor a deadline
    alarm.clear();
    alarm.on_progress();
    EXPECT_TRUE(alarm.urgent());
    alarm.set_ended(false);
    EXPECT_FALSE(alarm.urgent());
    alarm.wake_at(30);
    alarm.set_ended(true);
    alarm.set_ended(false);
    EXPECT_TRUE(alarm.urgent());  // for the packets
}

// A handshake is over long before its deadline. Until deadlines are found anew, the alarm says so.
TEST(AlarmTest, IsStaleUntilDeadlinesAreFoundAnew) {
    Alarm alarm;
    alarm.wake_at(30);
    EXPECT_FALSE(alarm.stale());
    alarm.happened();
    alarm.set(40);
    EXPECT_TRUE(alarm.stale());
    EXPECT_TRUE(alarm.urgent());
    alarm.clear();
    EXPECT_FALSE(alarm.stale());
    EXPECT_FALSE(alarm.urgent());
}

TEST(AlarmTest, PacketsAreNotExpectedForEver) {
    Alarm alarm;
    alarm.wake_at(30);
    const auto calls = [&] {
        int count = 0;
        for (; alarm.urgent(); ++count) alarm.on_progress();
        return count;
    };
    const int most = calls();
    EXPECT_GT(most, 1);
    alarm.on_progress();
    EXPECT_FALSE(alarm.urgent());
    EXPECT_EQ(alarm.deadline(), 30u);
    // Each packet begins the count anew.
    alarm.expect_packets();
    alarm.on_progress();
    alarm.expect_packets();
    EXPECT_EQ(calls(), most);
}

}  // namespace
}  // namespace tern
