// SPDX-License-Identifier: BSD-3-Clause

// What a refused send does: it asks for reports of the connections that hold what it needs, and
// looks at no others.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "node.h"
#include "verbs_faults.h"

namespace tern::test {
namespace {

TEST(SendRoomTest, ARefusedSendAsksOnlyThoseWhoHoldBuffers) {
    constexpr size_t kPeers = 32;
    EngineSettings settings = small_settings();
    settings.send_buffers = 4;  // a peer that does not poll allows no more messages
    Node sender(settings);
    std::vector<std::unique_ptr<Node>> peers;
    std::vector<Channel*> channels;
    for (size_t i = 0; i < kPeers; ++i) {
        Node& peer = *peers.emplace_back(std::make_unique<Node>(small_settings()));
        std::string why;
        channels.push_back(sender.engine->attach(peer.engine->address(), &peer, why));
        ASSERT_NE(channels.back(), nullptr) << why;
        ASSERT_TRUE(sender.send(*channels.back(), 1, "first", peer));
        ASSERT_TRUE(until(
            [&] {
                sender.poll();
                peer.poll();
            },
            [&] { return !peer.messages.empty(); }));
        // Unsignaled, so no completion will report it.
        ASSERT_TRUE(sender.send(*channels.back(), 1, "short", peer));
    }
    size_t unreported = 0;
    for (const Channel* channel : channels) unreported += !channel->sends.last_is_signaled();
    ASSERT_GT(unreported, kPeers / 2);

    const std::string text(settings.segment_size / 2, 'x');
    const auto send = [&] {
        uint32_t length = 0;
        return sender.engine->am_bcopy(
            *channels.front(), 1,
            [&](void* to) {
                memcpy(to, text.data(), text.size());
                return static_cast<uint32_t>(text.size());
            },
            length);
    };
    watch_posts(port().context);
    for (uint32_t i = 0; i < settings.send_buffers; ++i) ASSERT_EQ(send(), Status::kOk);
    const VerbsFault posts(Verb::kPostSend, UINT_MAX, 0);
    EXPECT_EQ(send(), Status::kNoResource);
    EXPECT_LE(posts.calls(), 1u);
    // The buffers come back.
    EXPECT_TRUE(until(
        [&] {
            sender.poll();
            peers.front()->poll();
        },
        [&] { return send() == Status::kOk; }));
}

}  // namespace
}  // namespace tern::test
