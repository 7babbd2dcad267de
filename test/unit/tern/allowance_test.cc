// SPDX-License-Identifier: BSD-3-Clause
#include "veloblock/allowance.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "seed.h"

namespace tern {
namespace {

TEST(Allowance, IsSharedAmongSenders) {
    EXPECT_EQ(allowance::window(0), allowance::kMost);
    EXPECT_EQ(allowance::window(1), allowance::kMost);
    EXPECT_EQ(allowance::window(allowance::kTogether / allowance::kFirst), allowance::kFirst);
    EXPECT_EQ(allowance::window(100'000), allowance::kLeast);
    EXPECT_EQ(allowance::window(1, allowance::kMostRepeats), allowance::kMostRepeats);
    EXPECT_EQ(allowance::window(16, allowance::kMostRepeats), allowance::kFirst);
}

TEST(Allowance, AFewMessagesNeedNoFrame) {
    allowance::Given given;
    for (int i = 0; i < allowance::kFirst / 2 - 1; ++i) {
        given.received();
        EXPECT_FALSE(given.due(allowance::kMost)) << i;
    }
    given.received();
    EXPECT_TRUE(given.due(allowance::kMost));
}

TEST(Allowance, NeverShrinks) {
    allowance::Given given;
    EXPECT_EQ(given.extend(allowance::kLeast), allowance::kFirst);
    EXPECT_EQ(given.extend(allowance::kMost), allowance::kMost);
    EXPECT_EQ(given.extend(allowance::kLeast), allowance::kMost);
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
        // What is not numbered yet is a message.
        const bool repeats = run % 2 == 1;
        const uint16_t most = repeats ? allowance::kMostRepeats : allowance::kMost;
        const auto window = [&] { return allowance::window(senders, most); };
        const auto is_due = [&] {
            return repeats ? given.due_early(window()) : given.due(window());
        };
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
                due = due || is_due();
            }
            if (chance(3) && due) {
                due = false;
                if (is_due()) frames.push_back(given.extend(window()));
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
