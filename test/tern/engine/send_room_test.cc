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

// UCP aborts the program if a message that sets up an endpoint has to wait when the endpoint is
// closed by force.
TEST(SendRoomTest, UrgentMessagesDoNotWait) {
    constexpr uint32_t kUrgent = 7, kOther = 8;
    EngineSettings settings = quick_settings();
    settings.urgent_id = kUrgent;
    Node sender(settings), peer;
    const auto both = [&] {
        sender.poll();
        peer.poll();
    };
    std::string why;
    Channel* const channel = sender.engine->attach(peer.engine->address(), &peer, why);
    ASSERT_NE(channel, nullptr) << why;
    ASSERT_TRUE(sender.send(*channel, kOther, "first", peer));
    ASSERT_TRUE(until(both, [&] { return !peer.messages.empty(); }));
    // The peer does not poll, and so allows no more.
    uint64_t sent = 0;
    while (sender.send_number(*channel, kOther, sent) == Status::kOk && sent < 2 * allowance::kMost)
        ++sent;
    ASSERT_EQ(sender.engine->counters().cold_stalls, 1u);
    constexpr uint64_t kMore = 10;
    for (uint64_t i = 0; i < kMore; ++i)
        EXPECT_EQ(sender.send_number(*channel, kUrgent, sent + i), Status::kOk);
    EXPECT_EQ(sender.send_number(*channel, kOther, 0), Status::kNoResource);
    EXPECT_TRUE(until(both, [&] { return peer.messages.size() == 1 + sent + kMore; }));
    for (uint64_t i = 0; i < sent + kMore; ++i) EXPECT_EQ(peer.messages[1 + i].number(), i);
    EXPECT_TRUE(
        until(both, [&] { return sender.send_number(*channel, kOther, 0) == Status::kOk; }));
    // They are lost with a connection that has failed, of which its users are told then; not with
    // one that ends in good order.
    for (const Status status : {Status::kTimedOut, Status::kConnectionReset, Status::kOk}) {
        Channel* const next = sender.engine->attach(peer.engine->address(), &sender, why);
        ASSERT_NE(next, nullptr) << why;
        ASSERT_TRUE(sender.send(*next, kOther, "more", peer));
        sender.closures.clear();
        sender.engine->fail(*next, status, "test");
        EXPECT_EQ(sender.send_number(*next, kUrgent, 0),
                  status == Status::kOk ? Status::kNoResource : Status::kOk);
        EXPECT_EQ(sender.send_number(*next, kOther, 0), Status::kNoResource);
        EXPECT_TRUE(until([&] { sender.poll(); }, [&] { return !sender.closures.empty(); }));
        if (status != Status::kOk) {
            EXPECT_EQ(sender.closures.front().second, status);
        }
    }
}

}  // namespace
}  // namespace tern::test
