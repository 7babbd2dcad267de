// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/decision.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

// How many of `count` messages are made readable, if a peer that has to ask waits or not.
int published(Lateness& lateness, int count, bool late) {
    int readable = 0;
    for (int i = 0; i < count; ++i)
        if (lateness.publishes())
            ++readable;
        else
            lateness.note(late);
    return readable;
}

TEST(LatenessTest, MessagesThatWaitTurnIntoMessagesThatAreRead) {
    Lateness lateness;
    EXPECT_EQ(published(lateness, 100, false), 0);
    EXPECT_EQ(published(lateness, 3, true), 0);
    const int readable = published(lateness, 320, true);
    EXPECT_GE(readable, 290);
    EXPECT_LT(readable, 320) << "some are asked for, to see";
}

TEST(LatenessTest, ASenderThatIsInTimeAgainIsAsked) {
    Lateness lateness;
    (void)published(lateness, 1000, true);
    (void)published(lateness, 400, false);
    EXPECT_EQ(published(lateness, 100, false), 0);
}

// A processor that was taken away for some milliseconds is no reason.
TEST(LatenessTest, OnceIsNotOften) {
    Lateness lateness;
    for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(published(lateness, 1, true), 0);
        EXPECT_EQ(published(lateness, 9, false), 0);
    }
}

}  // namespace
}  // namespace tern
