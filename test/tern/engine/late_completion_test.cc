// SPDX-License-Identifier: BSD-3-Clause
// Completions that are kept before they are polled for.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "node.h"

namespace tern::test {
namespace {

// The first completions of a peer's messages are kept, the others are in the queue, when a packet
// says that the peer has left. All its messages are delivered.
TEST(LateCompletionTest, NothingBehindKeptCompletionsIsLost) {
    constexpr size_t kPeers = 6, kMessages = kPeers * allowance::kFirst, kKept = 20;
    EngineSettings settings = quick_settings();
    settings.poll = PollMode::kCq;
    Node node(settings), silent(settings);
    std::vector<std::unique_ptr<Node>> peers;
    std::vector<Channel*> channels;
    int user = 0;
    std::string why;
    for (size_t i = 0; i < kPeers; ++i) {
        Node& peer = *peers.emplace_back(std::make_unique<Node>(settings));
        channels.push_back(peer.engine->attach(node.engine->address(), &user, why));
        ASSERT_NE(channels.back(), nullptr) << why;
        ASSERT_TRUE(until([&] { node.poll(), peer.poll(); }, [&] { return channels[i]->up(); }));
    }
    for (size_t i = 0; i < kMessages; ++i) {
        Node& peer = *peers[i % kPeers];
        Status status = Status::kNoResource;
        ASSERT_TRUE(until(
            [&] {
                uint32_t length = 0;
                const auto fill = [](void* to) {
                    memset(to, 'x', 300);
                    return 300u;
                };
                status = peer.engine->am_bcopy(*channels[i % kPeers], 1, fill, length);
                peer.poll();
            },
            [&] { return status == Status::kOk; }));
    }
    peers.clear();
    // While it connects, the node looks for packets at each poll.
    ASSERT_NE(node.engine->attach(silent.engine->address(), &user, why), nullptr) << why;
    for (size_t i = 0; i < kKept; ++i) node.engine->keep_completion();
    for (int i = 0; i < 1000; ++i) node.poll();
    EXPECT_EQ(node.messages.size(), kMessages);
}

}  // namespace
}  // namespace tern::test
