// SPDX-License-Identifier: BSD-3-Clause
// How long a measurement will take.
#include <gtest/gtest.h>

#include "bench/series/progress.h"

namespace bench {
namespace {

TEST(TimeLeft, IsThatOfTheStepsSoFar) {
    TimeLeft time(10);
    EXPECT_FALSE(report::is_set(time.left()));
    EXPECT_EQ(time.share(), 0);
    time.done(1);
    EXPECT_DOUBLE_EQ(time.left(), 9);
    time.done(3);
    EXPECT_DOUBLE_EQ(time.left(), 8 * 2);
    EXPECT_DOUBLE_EQ(time.share(), 2.0 / 10);
    time.drop();
    EXPECT_DOUBLE_EQ(time.left(), 7 * 2);
    EXPECT_DOUBLE_EQ(time.share(), 2.0 / 9);
    for (int i = 0; i < 20; ++i) time.done(2);
    EXPECT_DOUBLE_EQ(time.left(), 0);
    EXPECT_DOUBLE_EQ(time.share(), 1);
    EXPECT_EQ(duration_text(20), "20 s");
    EXPECT_EQ(duration_text(200), "3 min");
}

}  // namespace
}  // namespace bench
