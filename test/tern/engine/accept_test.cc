// SPDX-License-Identifier: BSD-3-Clause

// Connections that a thread accepts while their owner computes.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "answerer.h"

namespace tern::test {
namespace {

Channel* attach(Node& from, const PeerAddress& to, void* user) {
    std::string why;
    Channel* channel = from.engine->attach(to, user, why);
    EXPECT_NE(channel, nullptr) << why;
    return channel;
}

// Polls only this node.
bool flushed(Node& node, Channel& channel) {
    return until([&] { node.poll(); },
                 [&] { return node.engine->flushing()->flush(channel, {}) == Status::kOk; });
}

bool send_alone(Node& node, Channel& channel, uint32_t id, const std::string& text) {
    return node.send(channel, id, text, node);
}

class AcceptTest : public testing::Test {
  protected:
    // A node that has not been polled gets these when it is polled.
    static void expect_messages(Node& at, size_t count) {
        EXPECT_TRUE(until([&] { at.poll(); }, [&] { return at.messages.size() >= count; }));
        ASSERT_EQ(at.messages.size(), count);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(at.messages[i].data, std::to_string(i)) << i;
        at.messages.clear();
    }
    // Sends in both directions, and checks the order.
    static void talk(Node& a, Channel& there, Node& b, Channel& back) {
        for (size_t i = 0; i < 300; ++i) {
            ASSERT_TRUE(a.send(there, 1, std::to_string(i), b));
            ASSERT_TRUE(b.send(back, 1, std::to_string(i), a));
        }
        ASSERT_NO_FATAL_FAILURE(expect_messages(a, 300));
        ASSERT_NO_FATAL_FAILURE(expect_messages(b, 300));
    }

    Node target{small_settings()};
    int user = 0, other_user = 0;
};

TEST_F(AcceptTest, OneSidedOperationsNeedNoPollAtTheTarget) {
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       (port().atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
    verbs::RegisteredMemory memory(device().pd.get(), 4096, access);
    verbs::RegisteredMemory result(device().pd.get(), 4096, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_TRUE(memory && result);
    auto* words = reinterpret_cast<uint64_t*>(memory.data());
    const auto at = reinterpret_cast<uint64_t>(words);
    const Answerer answerer({&target});
    Node node;
    Channel* channel = attach(node, target.engine->address(), &user);
    ASSERT_NE(channel, nullptr);
    const uint64_t value = 40;
    ASSERT_EQ(
        node.engine->one_sided()->put_short(*channel, &value, sizeof(value), at, memory.rkey()),
        Status::kOk);
    ASSERT_TRUE(flushed(node, *channel));
    EXPECT_EQ(words[0], 40u);
    if (port().atomics) {
        ibv_sge piece{.addr = reinterpret_cast<uint64_t>(result.data()),
                      .length = sizeof(uint64_t),
                      .lkey = result.lkey()};
        ASSERT_EQ(node.engine->one_sided()->atomic(*channel, IBV_WR_ATOMIC_FETCH_AND_ADD, piece, 2,
                                                   0, at, memory.rkey(), nullptr),
                  Status::kOk);
        ASSERT_TRUE(flushed(node, *channel));
        EXPECT_EQ(words[0], 42u);
        EXPECT_EQ(*reinterpret_cast<uint64_t*>(result.data()), 40u);
    }
    EXPECT_EQ(target.engine->connections(), 0u) << "its owner has not heard of it";

    Channel* back = attach(target, node.engine->address(), &other_user);
    ASSERT_NE(back, nullptr);
    EXPECT_EQ(target.engine->connections(), 1u) << "it is the one that was accepted";
    talk(node, *channel, target, *back);
    EXPECT_EQ(node.engine->usage().connections_most, 1u);
    EXPECT_EQ(target.engine->usage().connections_most, 1u);
    node.engine->leave(channel, &user);
    target.engine->leave(back, &other_user);
    EXPECT_TRUE(until(
        [&] {
            node.poll();
            target.poll();
        },
        [&] { return node.engine->connections() + target.engine->connections() == 0; }));
    EXPECT_TRUE(node.losses.empty() && target.losses.empty());
}

TEST_F(AcceptTest, MessagesWaitForTheirReceiver) {
    const Answerer answerer({&target});
    Node node;
    Channel* channel = attach(node, target.engine->address(), &user);
    ASSERT_NE(channel, nullptr);
    // As many as it allows.
    for (size_t i = 0; i < allowance::kFirst; ++i)
        ASSERT_TRUE(send_alone(node, *channel, 1, std::to_string(i))) << i;
    ASSERT_TRUE(flushed(node, *channel));
    EXPECT_EQ(target.engine->connections(), 0u);
    ASSERT_NO_FATAL_FAILURE(expect_messages(target, allowance::kFirst));
    EXPECT_EQ(target.engine->connections(), 1u);
}

// No endpoint uses the connection, so nothing is sent that could fail.
TEST_F(AcceptTest, DeadPeersAreForgotten) {
    Node node;
    Channel* channel = attach(node, target.engine->address(), &user);
    ASSERT_NE(channel, nullptr);
    ASSERT_TRUE(node.send(*channel, 1, "0", target));
    ASSERT_TRUE(until(
        [&] {
            node.poll();
            target.poll();
        },
        [&] { return !target.messages.empty(); }));
    const uint64_t later = uint64_t{1} << 62;
    const auto test = [&](uint64_t now) {
        target.engine->flushing()->check_unused(now);
        for (int i = 0; i < 10'000; ++i) target.poll();
        return target.engine->connections();
    };
    EXPECT_EQ(test(later), 1u) << "the device answers for a process that computes";
    EXPECT_EQ(verbs::to_error(channel->qp.get()), 0);
    EXPECT_EQ(test(later + 1), 1u) << "it has been tested a short time ago";
    target.engine->flushing()->check_unused(later * 2);
    EXPECT_TRUE(until([&] { target.poll(); }, [&] { return target.engine->connections() == 0; }));
    EXPECT_TRUE(target.losses.empty()) << "nobody has lost anything";
    node.engine->leave(channel, &user);
}

// More peers than may wait: the others get no connection until the owner polls.
TEST_F(AcceptTest, ManyPeers) {
    constexpr size_t kPeers = Acceptor::kMost + 6;
    const Answerer answerer({&target});
    std::vector<std::unique_ptr<Node>> peers;
    std::vector<Channel*> channels;
    for (size_t i = 0; i < kPeers; ++i) {
        peers.push_back(std::make_unique<Node>(small_settings()));
        channels.push_back(attach(*peers[i], target.engine->address(), &user));
        ASSERT_NE(channels[i], nullptr);
        ASSERT_TRUE(send_alone(*peers[i], *channels[i], 1, "hello"));
    }
    const auto up = [&] {
        return static_cast<size_t>(std::count_if(channels.begin(), channels.end(),
                                                 [](Channel* channel) { return channel->up(); }));
    };
    const auto poll_peers = [&] {
        for (auto& peer : peers) peer->poll();
    };
    EXPECT_TRUE(until(poll_peers, [&] { return up() == Acceptor::kMost; })) << up();
    for (int i = 0; i < 200; ++i) poll_peers();
    EXPECT_EQ(up(), Acceptor::kMost);
    const auto poll_all = [&] {
        poll_peers();
        target.poll();
    };
    EXPECT_TRUE(until(poll_all, [&] { return target.messages.size() == kPeers; }));
    EXPECT_EQ(up(), kPeers);
    EXPECT_EQ(target.engine->connections(), kPeers);
}

TEST_F(AcceptTest, PeerLeavesBeforeItIsKnown) {
    const Answerer answerer({&target});
    for (int round = 0; round < 5; ++round) {
        {
            Node node(small_settings());
            Channel* channel = attach(node, target.engine->address(), &user);
            ASSERT_NE(channel, nullptr);
            for (size_t i = 0; i < 3; ++i)
                ASSERT_TRUE(send_alone(node, *channel, 1, std::to_string(i)));
            ASSERT_TRUE(flushed(node, *channel));
        }
        if (round % 2 == 0) {
            ASSERT_NO_FATAL_FAILURE(expect_messages(target, 3));
        } else {
            EXPECT_TRUE(until([&] { target.poll(); }, [&] { return target.messages.size() == 3; }));
            target.messages.clear();
        }
        EXPECT_TRUE(
            until([&] { target.poll(); }, [&] { return target.engine->connections() == 0; }));
    }
    EXPECT_TRUE(target.losses.empty()) << target.reason;
}

// The peer is told that the connection is closed.
TEST_F(AcceptTest, TargetGoesBeforeItKnows) {
    Node node(small_settings());
    auto short_lived = std::make_unique<Node>(small_settings());
    Channel* channel = nullptr;
    {
        const Answerer answerer({short_lived.get()});
        channel = attach(node, short_lived->engine->address(), &user);
        ASSERT_NE(channel, nullptr);
        ASSERT_TRUE(send_alone(node, *channel, 1, "hello"));
        ASSERT_TRUE(flushed(node, *channel));
        ASSERT_TRUE(channel->up());
    }
    short_lived.reset();
    EXPECT_TRUE(until([&] { node.poll(); }, [&] { return !node.closures.empty(); }));
    ASSERT_EQ(node.closures.size(), 1u);
    EXPECT_EQ(node.closures[0].second, Status::kOk) << "nothing was under way";
}

// Both sides begin to connect, and a thread answers for one of them or for both.
TEST_F(AcceptTest, AttemptsThatCross) {
    for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE(round);
        Node a(small_settings()), b(small_settings());
        std::vector<Node*> answered;
        if (round % 3 != 1) answered.push_back(&a);
        if (round % 3 != 2) answered.push_back(&b);
        const Answerer answerer(answered);
        Channel* there = attach(a, b.engine->address(), &user);
        ASSERT_NE(there, nullptr);
        std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
        Channel* back = attach(b, a.engine->address(), &other_user);
        ASSERT_NE(back, nullptr);
        for (size_t i = 0; i < 10; ++i) {
            ASSERT_TRUE(a.send(*there, 1, std::to_string(i), b));
            ASSERT_TRUE(b.send(*back, 1, std::to_string(i), a));
        }
        // On Ethernet, another thread resolves the peer's address: until then, all sends wait for
        // their sender's progress.
        EXPECT_TRUE(until(
            [&] {
                a.poll();
                b.poll();
            },
            [&] { return a.messages.size() >= 10 && b.messages.size() >= 10; }));
        ASSERT_NO_FATAL_FAILURE(expect_messages(a, 10));
        ASSERT_NO_FATAL_FAILURE(expect_messages(b, 10));
        EXPECT_EQ(a.engine->connections(), 1u);
        EXPECT_EQ(b.engine->connections(), 1u);
        EXPECT_TRUE(a.closures.empty() && b.closures.empty());
    }
}

// A new connection wakes the owner, which may then sleep again.
TEST_F(AcceptTest, WakesASleeper) {
    const auto readable = [](int fd, int limit) {
        pollfd it{fd, POLLIN, 0};
        return ::poll(&it, 1, limit) == 1;
    };
    const auto arms = [&] {
        for (int tries = 0; tries < 1000; ++tries)
            if (target.poll() == 0 && target.engine->sleep()->arm() == Status::kOk) return true;
        return false;
    };
    std::string why;
    const int fd = target.engine->sleep()->event_fd(why);
    ASSERT_GE(fd, 0) << why;
    const Answerer answerer({&target});
    ASSERT_TRUE(arms());
    Node node;
    Channel* channel = attach(node, target.engine->address(), &user);
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(readable(fd, 5000));
    ASSERT_TRUE(until([&] { node.poll(); }, [&] { return channel->up(); }));
    int wakes = 0;
    do {
        ASSERT_TRUE(arms());
    } while (readable(fd, 100) && ++wakes < 10);
    EXPECT_LT(wakes, 10) << "nothing comes";
    EXPECT_EQ(target.engine->connections(), 1u);
    ASSERT_TRUE(send_alone(node, *channel, 1, "hello"));
    EXPECT_TRUE(readable(fd, 5000));
    EXPECT_TRUE(until([&] { target.poll(); }, [&] { return target.messages.size() == 1; }));
}

// The completion queue has no room for accepted connections: the peers are told, and the log once.
TEST_F(AcceptTest, CompletionQueueCannotGrow) {
    auto limited = verbs::open_device(device().name());
    ASSERT_TRUE(limited);
    verbs::PortTrouble trouble;
    const auto limited_port = verbs::open_port(*limited, port().number, {}, trouble);
    ASSERT_TRUE(limited_port) << trouble.why;
    std::string why;
    limited->attributes.max_cqe = 200;
    Node full(small_settings());
    full.engine = Engine::create(*limited, *limited_port, small_settings(), full, why);
    ASSERT_TRUE(full.engine) << why;
    {
        const Answerer answerer({&full});
        std::vector<std::unique_ptr<Node>> peers;
        std::vector<Channel*> channels;
        for (size_t i = 0; i < 12; ++i) {
            peers.push_back(std::make_unique<Node>(small_settings()));
            channels.push_back(attach(*peers[i], full.engine->address(), &user));
            ASSERT_NE(channels[i], nullptr);
            ASSERT_TRUE(until([&] { peers[i]->poll(); }, [&] { return channels[i]->up(); }));
        }
        size_t closed = 0, open = 0;
        EXPECT_TRUE(until(
            [&] {
                full.poll();
                closed = open = 0;
                for (auto& peer : peers) {
                    peer->poll();
                    closed += peer->closures.size();
                    open += peer->engine->connections();
                }
            },
            [&] { return closed != 0 && closed + full.engine->connections() == peers.size(); }));
        EXPECT_EQ(open, full.engine->connections());
        EXPECT_EQ(full.warnings.size(), 1u);
        // Connections that have a place keep it.
        for (size_t i = 0; i < peers.size(); ++i)
            if (peers[i]->closures.empty()) {
                EXPECT_TRUE(peers[i]->send(*channels[i], 1, "hello", full));
            }
        EXPECT_TRUE(until([&] { full.poll(); }, [&] { return full.messages.size() == open; }));
        // A later peer waits until an idle one gives up its place.
        Node late(small_settings());
        Channel* channel = attach(late, full.engine->address(), &user);
        ASSERT_NE(channel, nullptr);
        EXPECT_TRUE(until(
            [&] {
                late.poll();
                full.poll();
                for (auto& peer : peers) peer->poll();
            },
            [&] { return channel->up(); }));
        EXPECT_TRUE(late.closures.empty());
    }
    full.engine.reset();
}

}  // namespace
}  // namespace tern::test
