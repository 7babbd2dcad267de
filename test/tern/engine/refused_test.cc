// SPDX-License-Identifier: BSD-3-Clause
// A peer that is alive, and refuses connections.
#include <gtest/gtest.h>

#include "node.h"
#include "rogue.h"

namespace tern::test {
namespace {

// A peer without room may have some later: the attempt is repeated, until its limit.
TEST(RefusedTest, EndsTheAttemptWithItsReason) {
    Rogue rogue;
    rogue.refuses = true;
    EngineSettings patient = quick_settings();
    patient.handshake.connect_limit = 300'000'000;
    Node node(patient);
    int user = 0, cookie = 0;
    std::string why;
    Channel* channel = node.engine->attach(rogue.address(), &user, why);
    ASSERT_NE(channel, nullptr) << why;
    EXPECT_EQ(node.engine->am_short(*channel, 1, 8, [](std::byte* to) { memset(to, 0, 8); }),
              Status::kOk);
    EXPECT_EQ(node.engine->flushing()->flush(*channel, {&cookie}), Status::kInProgress);
    ASSERT_TRUE(until(
        [&] {
            node.poll();
            rogue.poll();
        },
        [&] { return !node.closures.empty(); }));
    EXPECT_EQ(node.closures[0].second, Status::kRefused);
    EXPECT_EQ(node.completions, std::vector<Status>{Status::kRefused});
    for (const char* part : {"no room", "UCX_TERN_QP_MAX"})
        EXPECT_NE(node.reason.find(part), std::string::npos) << node.reason;
    EXPECT_EQ(node.losses.size(), 1u) << "one line in the log";
    EXPECT_EQ(node.engine->connections(), 0u);
}

TEST(RefusedTest, RepeatsTheAttemptUntilThereIsRoom) {
    Rogue rogue;
    rogue.refuses = true;
    EngineSettings patient = quick_settings();
    patient.handshake.connect_limit = uint64_t{3600} * 1'000'000'000;
    Node node(patient);
    int user = 0;
    std::string why;
    Channel* channel = node.engine->attach(rogue.address(), &user, why);
    ASSERT_NE(channel, nullptr) << why;
    const auto poll = [&] {
        node.poll();
        rogue.poll();
    };
    const uint32_t before = channel->handshake.token();
    ASSERT_TRUE(until(poll, [&] { return channel->handshake.token() - before > 6; }));
    EXPECT_TRUE(node.closures.empty()) << node.reason;
    rogue.refuses = false;
    ASSERT_TRUE(until(poll, [&] { return channel->up(); }));
    EXPECT_TRUE(node.closures.empty() && node.losses.empty());
}

}  // namespace
}  // namespace tern::test
