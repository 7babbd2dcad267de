// SPDX-License-Identifier: BSD-3-Clause

// The receive queue grows with the peers that send cold, and they send no more than it can take.

#include "tern/engine/receive_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "node.h"
#include "tern/base/tunables.h"

namespace tern::test {
namespace {

constexpr uint32_t kFirst = 32;
constexpr uint32_t kBuffer = 1024;  // bytes of a message

EngineSettings sender_settings() {
    EngineSettings settings = small_settings();
    settings.segment_size = kBuffer;
    settings.poll = PollMode::kCq;  // nobody gets a block
    return settings;
}

EngineSettings receiver_settings(uint32_t most, uint32_t first) {
    EngineSettings settings = sender_settings();
    settings.receive_queue = first;
    settings.receive_most = most;
    return settings;
}

// A receiver and its peers, which send numbered messages.
class Crowd {
  public:
    Crowd(size_t peers, uint32_t most, uint32_t first = kFirst)
        : receiver_(receiver_settings(most, first)) {
        for (size_t i = 0; i < peers; ++i) {
            peers_.push_back(std::make_unique<Peer>());
            Peer& peer = *peers_.back();
            std::string why;
            peer.channel = peer.node.engine->attach(receiver_.engine->address(), &peer, why);
            EXPECT_NE(peer.channel, nullptr) << why;
            EXPECT_TRUE(until([&] { poll(peer); }, [&] { return peer.channel->up(); }));
        }
    }
    ~Crowd() {
        for (const auto& peer : peers_) peer->node.engine->leave(peer->channel, peer.get());
    }

    // All peers send as long as they may, and the receiver is not polled. Returns how many messages
    // they have sent.
    uint64_t flood() {
        const uint64_t before = sent();
        for (size_t round = 0; round < 100; ++round)
            for (size_t i = 0; i < peers_.size(); ++i) {
                peers_[i]->end = UINT64_MAX;
                send(*peers_[i], i);
                peers_[i]->end = peers_[i]->sent;
            }
        return sent() - before;
    }
    uint64_t stalls() const {
        uint64_t stalls = 0;
        for (const auto& peer : peers_) stalls += peer->node.engine->counters().cold_stalls;
        return stalls;
    }
    // The receiver takes all, until every peer may send again. False: something was lost.
    bool drain() {
        return send(0, 0) && until([&] { poll_all(); },
                                   [&] {
                                       return std::ranges::all_of(peers_, [](const auto& peer) {
                                           return peer->node.engine->has_room(*peer->channel);
                                       });
                                   });
    }
    // The first peers send so many messages each. The receiver is polled when none of them can send
    // more, as one that computes. False: something was lost, or out of order.
    bool send(size_t peers, uint64_t messages) {
        for (size_t i = 0; i < peers; ++i) peers_[i]->end = peers_[i]->sent + messages;
        return send_all(sent() + peers * messages);
    }
    // One of the peers sends so many messages.
    bool send_alone(size_t index, uint64_t messages) {
        peers_[index]->end = peers_[index]->sent + messages;
        return send_all(sent() + messages);
    }
    EngineUsage usage() const { return receiver_.engine->usage(); }
    uint32_t buffers() const { return usage().receive_buffers; }

  private:
    struct Peer {
        Node node{sender_settings()};
        Channel* channel = nullptr;
        uint64_t sent = 0, end = 0, received = 0;
    };

    bool send_all(uint64_t all) {
        for (int i = 0; i < 20; ++i) poll_all();
        return until(
                   [&] {
                       for (size_t i = 0; i < peers_.size(); ++i) send(*peers_[i], i);
                       for (int i = 0; i < 20; ++i) poll(receiver_);
                   },
                   [&] { return received_ == all; }) &&
               good_;
    }
    void poll_all() {
        poll(receiver_);
        for (const auto& peer : peers_) peer->node.poll();
    }
    uint64_t sent() const {
        uint64_t sent = 0;
        for (const auto& peer : peers_) sent += peer->sent;
        return sent;
    }
    void poll(Peer& peer) {
        peer.node.poll();
        poll(receiver_);
    }
    void send(Peer& peer, size_t index) {
        while (peer.sent != peer.end &&
               peer.node.send_number(*peer.channel, 1, index << 32 | peer.sent) == Status::kOk)
            ++peer.sent;
        peer.node.poll();
    }
    void poll(Node& receiver) {
        receiver.poll();
        for (const Node::Message& message : receiver.messages) {
            Peer& from = *peers_[message.number() >> 32];
            good_ = good_ && (message.number() & 0xffffffff) == from.received++;
            ++received_;
        }
        receiver.messages.clear();
    }

    Node receiver_;
    std::vector<std::unique_ptr<Peer>> peers_;
    uint64_t received_ = 0;
    bool good_ = true;
};

TEST(ReceiveQueueTest, GrowsWithThePeersThatSend) {
    Crowd crowd(20, 1024);
    EXPECT_EQ(crowd.buffers(), kFirst);
    const uint64_t before = crowd.usage().registered_bytes;
    ASSERT_TRUE(crowd.send(20, 400));
    EXPECT_GT(crowd.buffers(), kFirst);
    EXPECT_GE(crowd.usage().registered_bytes, before + (crowd.buffers() - kFirst) * kBuffer);
    // By the last chunk, it may be more than 8 for each.
    EXPECT_LE(crowd.buffers(), 20u * 8 + 64);
}

TEST(ReceiveQueueTest, DoesNotGrowForSilentPeers) {
    Crowd crowd(20, 1024);
    ASSERT_TRUE(crowd.send(3, 2000));
    EXPECT_EQ(crowd.buffers(), kFirst);
}

TEST(ReceiveQueueTest, GrowsToItsLimit) {
    Crowd crowd(20, kFirst + 10);
    ASSERT_TRUE(crowd.send(20, 400));
    EXPECT_EQ(crowd.buffers(), kFirst + 10);
}

TEST(AllowanceTest, AReceiverThatDoesNotPollIsNotOverrun) {
    constexpr size_t kPeers = 20;
    Crowd crowd(kPeers, 1024);
    for (int round = 0; round < 10; ++round) {
        const uint64_t sent = crowd.flood();
        EXPECT_LE(sent, kPeers * (kUsualAllowance + 1)) << round;
        if (round == 0) {
            EXPECT_EQ(sent, kPeers * allowance::kFirst);
            EXPECT_EQ(crowd.stalls(), kPeers);
        }
        ASSERT_TRUE(crowd.drain()) << round;
    }
    // Not in each round: a sender's own queue may fill before, while the receiver has no buffers.
    EXPECT_GT(crowd.stalls(), 5 * kPeers);
}

// Its few peers send many short messages while it computes.
TEST(AllowanceTest, FewSendersMaySendMany) {
    Crowd crowd(2, 1024, 1024);
    ASSERT_TRUE(crowd.send(2, 1000));
    EXPECT_GE(crowd.flood(), 2u * allowance::kMost / 2);
    EXPECT_TRUE(crowd.drain());
}

// Peers that sent in turn may do so again, all at once.
TEST(AllowanceTest, SilentPeersKeepTheirAllowance) {
    constexpr uint32_t kReceives = 1024, kPeers = 10;
    Crowd crowd(kPeers, kReceives, kReceives);
    for (uint32_t i = 0; i < kPeers; ++i) ASSERT_TRUE(crowd.send_alone(i, 2 * kColdRound)) << i;
    const uint64_t sent = crowd.flood();
    EXPECT_GT(sent, kReceives / 4);
    EXPECT_LE(sent, kReceives / 2 + kPeers * kUsualAllowance);
    EXPECT_TRUE(crowd.drain());
}

TEST(AllowanceTest, NothingIsLostBySendersThatWait) {
    Crowd crowd(20, 1024);
    ASSERT_TRUE(crowd.send(20, 1000));
    EXPECT_GT(crowd.stalls(), 20u);
}

// A receiver that keeps messages where they have arrived.
class KeptMessageTest : public testing::Test {
  protected:
    static constexpr uint32_t kHeadroom = 88, kMost = 64;

    KeptMessageTest() {
        std::string why;
        channel_ = sender_.engine->attach(receiver_.engine->address(), &sender_, why);
        EXPECT_NE(channel_, nullptr) << why;
        receiver_.keep = true;
    }
    ~KeptMessageTest() override { sender_.engine->leave(channel_, &sender_); }

    static EngineSettings settings() {
        EngineSettings settings = receiver_settings(kMost, kFirst);
        settings.buffers.headroom = kHeadroom;
        return settings;
    }
    static std::string text(size_t number) {
        return std::string(kBuffer - 1, static_cast<char>('a' + number % 26)) + '.';
    }
    // Of `count` messages from `first` on, all are kept and their headroom is written to.
    void keep(size_t first, size_t count) {
        for (size_t i = first; i < first + count; ++i)
            ASSERT_TRUE(sender_.send(*channel_, 1, text(i), receiver_)) << i;
        ASSERT_TRUE(take([&] { return receiver_.kept.size() == first + count; }));
        for (size_t i = first; i < first + count; ++i)
            memset(receiver_.kept[i].data() - kHeadroom, 0xee, kHeadroom);
    }
    bool take(const std::function<bool()>& all) {
        return until(
            [&] {
                sender_.poll();
                receiver_.poll();
            },
            all);
    }
    bool right(size_t number) const {
        const std::span<std::byte> bytes = receiver_.kept[number];
        return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) ==
               text(number);
    }

    Node receiver_{settings()};
    Node sender_{sender_settings()};
    Channel* channel_;
};

TEST_F(KeptMessageTest, StaysUntilItIsGivenBack) {
    for (size_t round = 0; round < 5; ++round) {
        ASSERT_NO_FATAL_FAILURE(keep(0, kMost));
        for (size_t i = 0; i < kMost; ++i) EXPECT_TRUE(right(i)) << i;
        for (const auto& each : receiver_.kept) receiver_.engine->give_back(each.data());
        receiver_.kept.clear();
    }
    EXPECT_EQ(receiver_.engine->usage().receive_buffers, kFirst);
}

TEST_F(KeptMessageTest, IsCopiedBeyondTheMost) {
    ASSERT_NO_FATAL_FAILURE(keep(0, kMost));
    for (size_t i = 0; i < 2 * kMost; ++i)
        ASSERT_TRUE(sender_.send(*channel_, 1, text(i), receiver_)) << i;
    ASSERT_TRUE(take([&] { return receiver_.messages.size() == 2 * kMost; }));
    EXPECT_EQ(receiver_.kept.size(), kMost);
    for (size_t i = 0; i < kMost; ++i) EXPECT_TRUE(right(i)) << i;
    receiver_.engine->give_back(receiver_.kept.back().data());
    receiver_.kept.pop_back();
    keep(kMost - 1, 1);
}

TEST_F(KeptMessageTest, ShortOnesAreCopied) {
    ASSERT_TRUE(sender_.send(*channel_, 1, "short", receiver_));
    ASSERT_TRUE(take([&] { return receiver_.messages.size() == 1; }));
}

}  // namespace
}  // namespace tern::test
