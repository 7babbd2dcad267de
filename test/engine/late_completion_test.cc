// SPDX-License-Identifier: BSD-3-Clause
// Completions that are kept before they are polled for.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "node.h"

namespace tern::test {
namespace {

// The first completions of a peer's messages are kept, the others are in the queue, when a packet
// says that the peer has left. All its messages are delivered.
TEST(LateCompletionTest, NothingBehindKeptCompletionsIsLost) {
    constexpr size_t kMessages = 40, kKept = 20;
    EngineSettings settings = quick_settings();
    settings.poll = PollMode::kCq;
    Node node(settings), silent(settings);
    auto peer = std::make_unique<Node>(settings);
    int user = 0;
    std::string why;
    Channel* channel = peer->engine->attach(node.engine->address(), &user, why);
    ASSERT_NE(channel, nullptr) << why;
    ASSERT_TRUE(peer->send(*channel, 1, "first", node));
    ASSERT_TRUE(until([&] { node.poll(), peer->poll(); }, [&] { return !node.messages.empty(); }));
    for (size_t i = 0; i < kMessages; ++i) {
        Status status = Status::kNoResource;
        ASSERT_TRUE(until(
            [&] {
                uint32_t length = 0;
                const auto fill = [](void* to) {
                    memset(to, 'x', 300);
                    return 300u;
                };
                status = peer->engine->am_bcopy(*channel, 1, fill, length);
                peer->poll();
            },
            [&] { return status == Status::kOk; }));
    }
    peer.reset();
    // While it connects, the node looks for packets at each poll.
    ASSERT_NE(node.engine->attach(silent.engine->address(), &user, why), nullptr) << why;
    for (size_t i = 0; i < kKept; ++i) node.engine->keep_completion();
    for (int i = 0; i < 1000; ++i) node.poll();
    EXPECT_EQ(node.messages.size(), 1 + kMessages);
}

}  // namespace
}  // namespace tern::test
