// SPDX-License-Identifier: BSD-3-Clause
#include "tern/veloblock/allowance.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "common/seed.h"
#include "tern/base/tunables.h"

namespace tern {
namespace {

TEST(Allowance, IsSharedAmongSenders) {
    constexpr uint32_t kLong = 8192, kShort = 8, kReceives = 256;
    EXPECT_EQ(allowance::window(0, kReceives, kLong), kUsualAllowance);
    EXPECT_EQ(allowance::window(1, kReceives, kLong), kUsualAllowance);
    EXPECT_EQ(allowance::window(32, kReceives, kLong), 4);
    EXPECT_EQ(allowance::window(100'000, kReceives, kLong), kLeastAllowance);
    EXPECT_EQ(allowance::window(1, kReceives, kShort), allowance::kMost);
    EXPECT_EQ(allowance::window(1, 10'000, 0), allowance::kMost);
    EXPECT_EQ(allowance::window(64, kReceives, kShort), 4);
    EXPECT_EQ(allowance::window(100'000, kReceives, kShort), kLeastAllowance);
    // Without receives that are free, as messages of any length.
    EXPECT_EQ(allowance::window(1, 0, kShort), kUsualAllowance);
    EXPECT_EQ(allowance::window(2, 10'000, 2048), 64) << "128 KiB of each";
    EXPECT_EQ(allowance::window(32, 10'000, 1024), 32) << "1 MiB of all";
}

TEST(Allowance, AFewMessagesNeedNoFrame) {
    allowance::Given given;
    for (int i = 0; i < allowance::kFirst / 2 - 1; ++i) {
        given.received();
        EXPECT_FALSE(given.due()) << i;
    }
    given.received();
    EXPECT_TRUE(given.due());
}

TEST(Allowance, FramesComeWhenHalfIsUsed) {
    allowance::Given given;
    ASSERT_TRUE(given.extend(allowance::kMost));
    for (int round = 0; round < 5; ++round) {
        given.received(allowance::kMost / 2 - 1);
        EXPECT_FALSE(given.due());
        given.received();
        EXPECT_TRUE(given.due());
        EXPECT_TRUE(given.extend(allowance::kMost));
    }
}

TEST(Allowance, NeverShrinks) {
    allowance::Given given;
    EXPECT_FALSE(given.extend(kLeastAllowance));
    EXPECT_EQ(given.limit(), allowance::kFirst);
    EXPECT_TRUE(given.extend(allowance::kMost));
    EXPECT_FALSE(given.extend(kLeastAllowance));
    EXPECT_EQ(given.limit(), allowance::kMost);
    given.received(allowance::kMost - 2);
    EXPECT_FALSE(given.due()) << "of 2 at a time, none has come";
    given.received();
    EXPECT_TRUE(given.due());
}

// Both halves, with messages and frames on their way for any time, and any number of other senders.
// Nothing is refused for ever, and never is more under way than is allowed.
TEST(Allowance, RandomInterleavings) {
    std::mt19937 random(test::any_seed());
    const auto chance = [&](unsigned of) { return random() % of == 0; };
    for (int run = 0; run < 200; ++run) {
        allowance::Taken taken;
        allowance::Given given;
        int messages = 0;             // on their way
        std::deque<uint16_t> frames;  // the same
        unsigned sent = 0, senders = 1;
        bool due = false;
        const uint32_t bytes = run % 2 == 1 ? 8192 : 8;
        const uint16_t most = run % 2 == 1 ? kUsualAllowance : allowance::kMost;
        const auto window = [&] { return allowance::window(senders, 256, bytes); };
        const unsigned end = run == 0 ? 140'000 : 3'000;  // the counts begin anew
        while (sent < end) {
            if (chance(50)) senders = 1u << random() % 12;
            if (chance(2) && taken.open()) {
                taken.sent();
                ++messages;
                ++sent;
            } else if (chance(20) && !taken.overdrawn()) {
                // Its length was not known.
                taken.sent();
                ++messages;
                ++sent;
            }
            if (chance(2) && messages != 0) {
                --messages;
                given.received();
                due = due || given.due();
            }
            if (chance(3) && due) {
                due = false;
                if (given.extend(window())) frames.push_back(given.limit());
            }
            if (chance(3) && !frames.empty()) {
                ASSERT_TRUE(taken.extend(frames.front()));
                frames.pop_front();
            }
            ASSERT_LE(messages, most + 1);
            ASSERT_TRUE(taken.open() || messages != 0 || due || !frames.empty())
                << "the sender waits for ever";
        }
    }
}

}  // namespace
}  // namespace tern
