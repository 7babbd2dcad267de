// SPDX-License-Identifier: BSD-3-Clause

// Devices that have fewer queue pairs than there are peers: connections that nobody uses end, and
// whoever needs one waits.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <memory>
#include <string>
#include <vector>

#include "answerer.h"
#include "verbs_faults.h"
#include "world.h"

namespace tern::test {
namespace room_test {

EngineSettings room_settings() {
    EngineSettings settings = small_settings();
    settings.handshake.connect_limit = uint64_t{3600} * 1'000'000'000;
    return settings;
}

class RoomTest : public testing::Test {
  protected:
    // Node 0 and so many peers.
    static constexpr size_t kPeers = 100;
    static constexpr unsigned kQueuePairs = 69;

    static bool send(World& world, size_t from, size_t to, size_t polled_from = 0) {
        const auto poll = [&] {
            world.poll(0);
            for (size_t i = std::max<size_t>(polled_from, 1); i < world.size(); ++i) world.poll(i);
        };
        return until(poll, [&] { return HasFailure() || world.send(from, to); });
    }
    static bool all_received(World& world) {
        return until([&] { world.poll_all(); },
                     [&] { return HasFailure() || world.all_received(); });
    }
    static void expect_no_loss(World& world) {
        for (size_t i = 0; i < world.size(); ++i)
            EXPECT_TRUE(world.node(i).losses.empty()) << i << ": " << world.node(i).reason;
    }
};

TEST_F(RoomTest, OneRankTalksToMorePeersThanItHasQueuePairs) {
    World world(1 + kPeers, room_settings());
    const QueuePairLimit limit(kQueuePairs);
    for (int round = 0; round < 2; ++round)
        for (size_t to = 1; to <= kPeers; ++to) ASSERT_TRUE(send(world, 0, to)) << to;
    EXPECT_TRUE(all_received(world));
    EXPECT_GE(world.ended(), kPeers - kQueuePairs);
    EXPECT_EQ(world.node(0).warnings.size(), 1u) << "it says so once";
    expect_no_loss(world);
}

TEST_F(RoomTest, PeersThatFindNoRoomAreConnectedToInTheirTurn) {
    constexpr size_t kSenders = 30;  // who they are must fit into a message's id
    World world(1 + kSenders, room_settings());
    const QueuePairLimit limit(kSenders / 3);
    for (size_t from = 1; from <= kSenders; ++from)
        ASSERT_TRUE(until([&] { world.poll(from); }, [&] { return world.send(from, 0); }));
    EXPECT_TRUE(all_received(world));
    expect_no_loss(world);
}

// Peers that compute answer nothing: they keep their connections, and others end.
TEST_F(RoomTest, SilentPeersKeepTheirConnections) {
    constexpr size_t kSilent = 50;
    World world(1 + kPeers, room_settings());
    const QueuePairLimit limit(kQueuePairs);
    for (size_t to = 1; to <= kSilent; ++to) ASSERT_TRUE(send(world, 0, to));
    ASSERT_TRUE(all_received(world));
    for (size_t to = kSilent + 1; to <= kPeers; ++to) ASSERT_TRUE(send(world, 0, to, kSilent + 1));
    for (size_t to = 1; to <= kSilent; ++to) {
        ASSERT_NE(world.channel(0, to), nullptr);
        EXPECT_TRUE(world.channel(0, to)->up()) << to;
    }
    EXPECT_TRUE(all_received(world));
    expect_no_loss(world);
}

// Peers that have never answered keep nobody from the queue pairs.
TEST_F(RoomTest, PeersThatDoNotAnswerGiveWay) {
    World world(2 + kPeers, room_settings());
    const QueuePairLimit limit(kQueuePairs);
    const size_t live = 1 + kPeers;
    const auto poll = [&] {
        world.poll(0);
        world.poll(live);
    };
    for (size_t to = 1; to <= kPeers; ++to) (void)world.send(0, to);
    ASSERT_TRUE(until(poll, [&] { return world.send(0, live); }));
    ASSERT_TRUE(until(poll, [&] { return world.received(0, live) == 1; }));
    for (size_t to = 1; to <= kPeers; ++to) ASSERT_TRUE(send(world, 0, to));
    EXPECT_TRUE(all_received(world));
    expect_no_loss(world);
}

// They take turns, and the time of each goes on.
TEST_F(RoomTest, DeadPeersThatCompeteForRoomAreGivenUp) {
    EngineSettings settings = room_settings();
    settings.handshake.connect_limit = 500'000'000;
    Node node(settings), first(settings), second(settings);  // the latter two never poll
    const QueuePairLimit limit(1);
    int user = 0;
    for (const Node* dead : {&first, &second}) {
        std::string why;
        ASSERT_NE(node.engine->attach(dead->engine->address(), &user, why), nullptr) << why;
    }
    ASSERT_TRUE(until([&] { node.poll(); }, [&] { return node.closures.size() == 2; }));
    for (const auto& [who, status] : node.closures) EXPECT_EQ(status, Status::kTimedOut);
}

TEST_F(RoomTest, BothSidesMayBeAtTheirLimit) {
    constexpr uint64_t kMessages = 20'000;
    World world(12, room_settings());
    const QueuePairLimit limit(4);
    run_random_traffic(world, {.friends = 3, .computes = 500, .burst = 5},
                       [&] { return world.sent() >= kMessages && world.ended() >= 100; });
    EXPECT_GT(limit.refused(), 0u);
}

// All want all at once, and none has more than one connection at a time.
TEST_F(RoomTest, OneQueuePairForEachRank) {
    constexpr size_t kNodes = 5;
    World world(kNodes, room_settings());
    const QueuePairLimit limit(1);
    for (size_t from = 0; from < kNodes; ++from)
        for (size_t to = 0; to < kNodes; ++to)
            if (from != to) (void)world.send(from, to);
    for (size_t from = 0; from < kNodes; ++from)
        for (size_t to = 0; to < kNodes; ++to)
            if (from != to) {
                ASSERT_TRUE(until([&] { world.poll_all(); }, [&] { return world.send(from, to); }));
            }
    EXPECT_TRUE(all_received(world));
    expect_no_loss(world);
}

// The peer's background thread answers each attempt, and its owner refuses it.
TEST_F(RoomTest, APeerThatNeverHasRoomIsGivenUp) {
    EngineSettings settings = room_settings();
    Node peer(settings), silent(settings);
    settings.handshake.connect_limit = 500'000'000;
    Node node(settings);
    const QueuePairLimit limit(1);
    int user = 0;
    std::string why;
    Channel* const kept = peer.engine->attach(silent.engine->address(), &user, why);
    ASSERT_NE(kept, nullptr) << why;
    ASSERT_TRUE(until([&] { peer.poll(), silent.poll(); }, [&] { return kept->up(); }));
    const Answerer answerer({&peer});
    ASSERT_NE(node.engine->attach(peer.engine->address(), &user, why), nullptr) << why;
    ASSERT_TRUE(until([&] { node.poll(), peer.poll(); }, [&] { return !node.closures.empty(); }));
    EXPECT_EQ(node.closures[0].second, Status::kRefused);
    EXPECT_TRUE(kept->up());
}

// Peers that compute, and have no queue pair left, are asked in turns, after a wait for room on
// this side: signs of life renew their time.
TEST_F(RoomTest, PeersThatComputeAreNotGivenUp) {
    EngineSettings settings = room_settings();
    std::vector<std::unique_ptr<Node>> peers, silent;
    int user = 0;
    std::string why;
    const QueuePairLimit limit(1);
    for (int i = 0; i < 2; ++i) {
        Node& peer = *peers.emplace_back(std::make_unique<Node>(settings));
        Node& other = *silent.emplace_back(std::make_unique<Node>(settings));
        Channel* const kept = peer.engine->attach(other.engine->address(), &user, why);
        ASSERT_NE(kept, nullptr) << why;
        ASSERT_TRUE(until([&] { peer.poll(), other.poll(); }, [&] { return kept->up(); }));
    }
    const Answerer answerer({peers[0].get(), peers[1].get()});
    settings.handshake.connect_limit = 500'000'000;
    Node node(settings);
    const auto poll_for = [&](std::chrono::milliseconds time) {
        const auto end = std::chrono::steady_clock::now() + time;
        while (std::chrono::steady_clock::now() < end) node.poll();
    };
    {
        const VerbsFault none(Verb::kCreateQp, 1, ENOMEM, UINT_MAX);
        for (const auto& peer : peers)
            ASSERT_NE(node.engine->attach(peer->engine->address(), &user, why), nullptr) << why;
        poll_for(std::chrono::milliseconds(400));
        EXPECT_GT(none.calls(), 0u);
    }
    poll_for(std::chrono::milliseconds(1500));
    EXPECT_TRUE(node.closures.empty()) << node.reason;
}

// One whose device or memory has failed will never have room.
TEST_F(RoomTest, APeerThatHasFailedRefusesForGood) {
    for (const bool before : {true, false}) {
        SCOPED_TRACE(before);
        Node node(room_settings()), peer(room_settings());
        const Answerer answerer({&peer});
        int user = 0;
        std::string why;
        if (before) peer.engine->break_down("a test");
        ASSERT_NE(node.engine->attach(peer.engine->address(), &user, why), nullptr) << why;
        if (!before) peer.engine->break_down("a test");
        ASSERT_TRUE(
            until([&] { node.poll(), peer.poll(); }, [&] { return !node.closures.empty(); }));
        // Or it was up, and has ended before anything was sent.
        if (before) {
            EXPECT_EQ(node.closures[0].second, Status::kRefused);
        }
        EXPECT_EQ(peer.engine->connections(), 0u);
    }
}

// Others may have all queue pairs of the device. But the own connections end at some time.
TEST_F(RoomTest, OnlyAWaitForOthersHasALimit) {
    EngineSettings settings = room_settings();
    Node silent(settings), other(settings);
    // Longer than a queue pair lasts whose device does not report the last receive.
    settings.handshake.connect_limit = 3'000'000'000;
    Node node(settings);
    int user = 0, other_user = 0;
    std::string why;
    {
        const QueuePairLimit none(0);
        ASSERT_NE(node.engine->attach(other.engine->address(), &user, why), nullptr) << why;
        ASSERT_TRUE(until([&] { node.poll(); }, [&] { return !node.closures.empty(); }));
        EXPECT_EQ(node.closures[0], std::pair(static_cast<void*>(&user), Status::kDevice));
        EXPECT_NE(node.reason.find("cannot create a queue pair"), std::string::npos) << node.reason;
        EXPECT_EQ(node.warnings.size(), 1u);
        EXPECT_EQ(node.losses.size(), 1u);
    }
    const QueuePairLimit limit(1);
    Channel* const first = node.engine->attach(silent.engine->address(), &user, why);
    ASSERT_NE(first, nullptr) << why;
    ASSERT_TRUE(node.send(*first, 1, "hello", silent));
    ASSERT_TRUE(until([&] { node.poll(), silent.poll(); }, [&] { return first->up(); }));
    ASSERT_TRUE(
        until([&] { node.poll(), silent.poll(); }, [&] { return !silent.messages.empty(); }));
    node.closures.clear();
    Channel* const second = node.engine->attach(other.engine->address(), &other_user, why);
    ASSERT_NE(second, nullptr) << why;
    const uint64_t since = second->wait.since;
    ASSERT_TRUE(until([&] { node.poll(), other.poll(); },
                      [&] { return second->wait.since > since || !node.closures.empty(); }));
    EXPECT_TRUE(node.closures.empty()) << node.reason;
    ASSERT_TRUE(
        until([&] { node.poll(), other.poll(), silent.poll(); }, [&] { return second->up(); }));
    ASSERT_EQ(node.closures.size(), 1u) << "the first one has ended";
    EXPECT_EQ(node.closures[0], std::pair(static_cast<void*>(&user), Status::kOk));
}

}  // namespace room_test
}  // namespace tern::test
