// SPDX-License-Identifier: BSD-3-Clause

// Receives of the shared queue that the device has taken for queue pairs that end. The device
// gives them back (personality strict) unless the queue pair is destroyed too early.

#include <poll.h>

#include <chrono>
#include <memory>
#include <string>

#include "answerer.h"
#include "node.h"
#include "rogue.h"
#include "verbs_faults.h"

namespace tern::test {
namespace last_receive_test {

class LastReceiveTest : public testing::Test {
  protected:
    static constexpr int kRounds = 80;  // more than there are receives

    void step(Node& peer) {
        peer.poll();
        target_.poll();
    }
    Channel* attach(Node& from, const PeerAddress& to) {
        std::string why;
        Channel* channel = from.engine->attach(to, &user_, why);
        EXPECT_NE(channel, nullptr) << why;
        return channel;
    }
    // Sends a message to the target, and waits for it.
    bool talk(Node& peer, Channel& channel) {
        target_.messages.clear();
        return peer.send(channel, 1, "hello", target_) &&
               until([&] { step(peer); }, [&] { return !target_.messages.empty(); });
    }
    // Connects the peer to the target, and sends a message. Null: that has failed.
    Channel* meet(Node& peer) {
        Channel* channel = attach(peer, target_.engine->address());
        return channel != nullptr && talk(peer, *channel) ? channel : nullptr;
    }
    void leave(Node& peer, Channel* channel) {
        peer.engine->leave(channel, &user_);
        EXPECT_TRUE(until(
            [&] { step(peer); },
            [&] { return peer.engine->connections() == 0 && target_.engine->connections() == 0; }));
    }
    // More messages than there are receives arrive.
    void expect_heard() {
        Node honest;
        Channel* channel = attach(honest, target_.engine->address());
        ASSERT_NE(channel, nullptr);
        for (int i = 0; i < 100; ++i) ASSERT_TRUE(talk(honest, *channel)) << i;
        leave(honest, channel);
    }

    Node target_{small_settings()};
    int user_ = 0;
};

TEST_F(LastReceiveTest, ComesBackWhenConnectionsEndInGoodOrder) {
    Node peer(small_settings());
    for (int i = 0; i < kRounds; ++i) {
        Channel* channel = meet(peer);
        ASSERT_NE(channel, nullptr) << "connection " << i;
        leave(peer, channel);
    }
    expect_heard();
}

TEST_F(LastReceiveTest, ComesBackWhenPeersGo) {
    for (int i = 0; i < kRounds; ++i) {
        auto peer = std::make_unique<Node>(small_settings());
        ASSERT_NE(meet(*peer), nullptr) << "connection " << i;
        peer.reset();
        ASSERT_TRUE(
            until([&] { target_.poll(); }, [&] { return target_.engine->connections() == 0; }));
    }
    expect_heard();
}

TEST_F(LastReceiveTest, ComesBackWhenConnectionsFail) {
    Node peer(small_settings());
    for (int i = 0; i < kRounds; ++i) {
        Channel* channel = meet(peer);
        ASSERT_NE(channel, nullptr) << "connection " << i;
        // The queue pair fails by itself before Tern knows of it.
        ASSERT_EQ(verbs::to_error(channel->qp.get()), 0);
        peer.engine->fail(*channel, Status::kConnectionReset, "the test wants it");
        ASSERT_TRUE(until(
            [&] { step(peer); },
            [&] { return peer.engine->connections() == 0 && target_.engine->connections() == 0; }))
            << "connection " << i;
    }
    expect_heard();
}

// A peer that says it has left, connects nevertheless, and sends data before this side knows of the
// connection.
TEST_F(LastReceiveTest, ComesBackFromAPeerThatHasLeft) {
    const Answerer answerer({&target_});
    Rogue rogue;
    const auto both = [&] {
        target_.poll();
        rogue.poll();
    };
    ASSERT_TRUE(rogue.begin(target_.engine->address()));
    ASSERT_TRUE(until(both, [&] { return rogue.up() && target_.engine->connections() == 1; }));
    rogue.say_left(target_.engine->address());
    ASSERT_TRUE(until(both, [&] { return target_.engine->connections() == 0; }));
    // Before this time, only the background thread works for the target.
    std::chrono::steady_clock::time_point limit;
    const auto is_late = [&] { return std::chrono::steady_clock::now() > limit; };
    // Grows, so that the background thread has the time that it needs on a busy machine.
    std::chrono::milliseconds patience(50);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    int sent = 0;
    rogue.meanwhile = [&] {
        if (is_late()) target_.poll();
    };
    while (sent < kRounds) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "after " << sent << " messages";
        rogue.drop();
        for (int polls = 0; polls < 300; ++polls) both();
        limit = std::chrono::steady_clock::now() + patience;
        ASSERT_TRUE(rogue.begin(target_.engine->address()));
        // A late packet of the connection before may have been accepted, and is in the way.
        while (!rogue.up() && !is_late()) rogue.poll();
        // The message may have to wait for receives that the target has not posted again.
        if (rogue.up()) rogue.send_frame(FrameKind::kActiveMessage, 1, "hello");
        if (is_late())
            patience += patience / 4;
        else
            ++sent;
        for (int polls = 0; polls < 300; ++polls) target_.poll();
        EXPECT_EQ(target_.engine->connections(), 0u);
        EXPECT_TRUE(target_.messages.empty());
    }
    rogue.meanwhile = [] {};
    rogue.drop();
    expect_heard();
}

// With the event and without it, no queue pair stays for ever; and the users do not wait.
class RetiredTest : public LastReceiveTest, public testing::WithParamInterface<bool> {
  protected:
    RetiredTest() {
        if (!GetParam()) without_ = std::make_unique<NoLastReceive>();
    }

    std::unique_ptr<NoLastReceive> without_;
};

TEST_P(RetiredTest, QueuePairsGo) {
    Node peer(small_settings());
    const int before = queue_pairs();
    for (int i = 0; i < 3; ++i) {
        Channel* channel = meet(peer);
        ASSERT_NE(channel, nullptr);
        leave(peer, channel);
    }
    EXPECT_TRUE(until([&] { step(peer); }, [&] { return queue_pairs() == before; }))
        << queue_pairs() - before << " are left";
    EXPECT_TRUE(peer.losses.empty() && target_.losses.empty());
}

// A sleeper is woken by the event, or when it is no longer awaited.
TEST_P(RetiredTest, QueuePairsOfSleepersGo) {
    std::string why;
    const int fd = target_.engine->sleep()->event_fd(why);
    ASSERT_GE(fd, 0) << why;
    Node peer(small_settings());
    const int before = queue_pairs();
    Channel* channel = meet(peer);
    ASSERT_NE(channel, nullptr);
    leave(peer, channel);
    ASSERT_TRUE(until([&] { peer.poll(); }, [&] { return queue_pairs() <= before + 1; }))
        << "its own is left";
    EXPECT_TRUE(until(
        [&] {
            while (target_.poll() != 0) {
            }
            if (queue_pairs() == before) return;
            if (target_.engine->sleep()->arm() != Status::kOk) return;
            pollfd it{fd, POLLIN, 0};
            (void)::poll(&it, 1, 5000);
        },
        [&] { return queue_pairs() == before; }));
}

INSTANTIATE_TEST_SUITE_P(Devices, RetiredTest, testing::Bool(), [](const auto& with) {
    return with.param ? "WithTheEvent" : "WithoutTheEvent";
});

}  // namespace last_receive_test
}  // namespace tern::test
