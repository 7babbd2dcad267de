// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/virtual_events.h"

#include <gtest/gtest.h>

namespace softhca {
namespace {

using Event = VirtualEvents::Event;
using Kind = VirtualEvents::Kind;

TEST(VirtualEvents, AreInTheOrderOfTimeAndAMemberIsToldBeforeADeviceActs) {
    VirtualEvents events;
    events.acts(1, 20);
    events.seen(2, 20);
    events.seen(3, 10);
    events.acts(0, 20);
    EXPECT_EQ(events.take(), (Event{10, Kind::kSeen, 3}));
    EXPECT_EQ(events.take(), (Event{20, Kind::kSeen, 2}));
    EXPECT_EQ(events.take(), (Event{20, Kind::kActs, 0}));
    EXPECT_EQ(events.take(), (Event{20, Kind::kActs, 1}));
    EXPECT_TRUE(events.empty());
    EXPECT_EQ(events.next().time, VirtualEvents::kNever);
}

TEST(VirtualEvents, ThatAreEqualHappenOnce) {
    VirtualEvents events;
    for (int i = 0; i < 3; ++i) events.seen(1, 10);
    (void)events.take();
    EXPECT_TRUE(events.empty());
}

TEST(VirtualEvents, WhoseTimeIsOverHappenAtOnce) {
    VirtualEvents events;
    events.acts(0, 100);
    (void)events.take();
    events.acts(0, 0);  // as soon as possible
    EXPECT_EQ(events.next().time, 100U);
    EXPECT_EQ(events.take(), (Event{100, Kind::kActs, 0}));
}

TEST(VirtualEvents, ThatNeverHappenAreNone) {
    VirtualEvents events;
    events.seen(0, VirtualEvents::kNever);
    EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace softhca
