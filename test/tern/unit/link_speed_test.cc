// SPDX-License-Identifier: BSD-3-Clause
// Link speeds and widths by their codes.
#include "tern/verbs/port.h"

#include <gtest/gtest.h>

namespace tern::verbs {
namespace {

constexpr uint32_t kOneLane = 1;
constexpr uint32_t kFourLanes = 2;

double gbits(uint32_t speed, uint32_t width = kFourLanes) {
    return link_speed(speed, width).bandwidth * 8 / 1e9;
}

// Attributes in headers before rdma-core 57, and since then.
struct OldAttributes {
    uint8_t active_speed = 0;
};
struct NewAttributes {
    uint8_t active_speed = 0;
    uint32_t active_speed_ex = 0;
};

TEST(LinkSpeedTest, SpeedsByTheirNames) {
    EXPECT_DOUBLE_EQ(gbits(1), 8);        // SDR
    EXPECT_DOUBLE_EQ(gbits(2), 16);       // DDR
    EXPECT_DOUBLE_EQ(gbits(4), 32);       // QDR
    EXPECT_DOUBLE_EQ(gbits(8), 40);       // FDR10
    EXPECT_NEAR(gbits(16), 54.54, 0.01);  // FDR
    EXPECT_DOUBLE_EQ(gbits(32), 100);     // EDR
    EXPECT_DOUBLE_EQ(gbits(64), 200);     // HDR
    EXPECT_DOUBLE_EQ(gbits(128), 400);    // NDR
    EXPECT_DOUBLE_EQ(gbits(256), 800);    // XDR
    for (uint32_t code = 1; code <= 256; code *= 2)
        EXPECT_TRUE(link_speed(code, kFourLanes).known) << code;
}

TEST(LinkSpeedTest, WidthsCountLanes) {
    EXPECT_DOUBLE_EQ(gbits(64, 1), 50);
    EXPECT_DOUBLE_EQ(gbits(64, 16), 100);
    EXPECT_DOUBLE_EQ(gbits(64, 2), 200);
    EXPECT_DOUBLE_EQ(gbits(64, 4), 400);
    EXPECT_DOUBLE_EQ(gbits(64, 8), 600);
}

TEST(LinkSpeedTest, UnknownSpeedIsSaidAndNotTheSlowest) {
    EXPECT_FALSE(link_speed(512, kFourLanes).known);
    EXPECT_DOUBLE_EQ(gbits(512), gbits(256));
    EXPECT_FALSE(link_speed(96, kFourLanes).known);
    EXPECT_DOUBLE_EQ(gbits(96), gbits(64));
    EXPECT_FALSE(link_speed(0, kFourLanes).known);
    EXPECT_DOUBLE_EQ(gbits(0), gbits(32));
}

TEST(LinkSpeedTest, UnknownWidthIsSaidAndCountsAsOneLane) {
    for (uint32_t width : {0u, 3u, 32u}) {
        EXPECT_FALSE(link_speed(32, width).known) << width;
        EXPECT_DOUBLE_EQ(gbits(32, width), gbits(32, kOneLane));
    }
}

TEST(LinkSpeedTest, ExtendedSpeedComesFirstWhereThereIsOne) {
    EXPECT_EQ(speed_code(OldAttributes{32}), 32u);
    EXPECT_EQ(speed_code(NewAttributes{32, 0}), 32u);
    EXPECT_EQ(speed_code(NewAttributes{128, 256}), 256u);
    EXPECT_EQ(speed_code(NewAttributes{0, 256}), 256u);
}

}  // namespace
}  // namespace tern::verbs
