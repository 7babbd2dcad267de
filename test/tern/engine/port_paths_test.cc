// SPDX-License-Identifier: BSD-3-Clause

// Several connections between two interfaces, each on a path of its own.

#include "tern/verbs/port.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "answerer.h"

namespace tern::test {
namespace {

// A port that has two paths.
verbs::Port two_paths() {
    verbs::Port two = port();
    two.paths = 2;
    return two;
}

class PortPathsTest : public testing::Test {
  protected:
    static Channel* attach(Node& from, const Node& to, uint8_t path, void* user) {
        std::string why;
        Channel* const channel = from.engine->attach(to.engine->address().on_path(path), user, why);
        EXPECT_NE(channel, nullptr) << why;
        return channel;
    }
    static void poll(Node& one, Node& other) {
        one.poll();
        other.poll();
    }
    static ibv_ah_attr way_of(const Channel& channel) {
        ibv_qp_attr attributes{};
        ibv_qp_init_attr unused{};
        EXPECT_EQ(ibv_query_qp(channel.qp.get(), &attributes, IBV_QP_AV, &unused), 0);
        return attributes.ah_attr;
    }
    // That the device has been told to send by the path.
    static void expect_path(const Channel& channel, uint8_t path) {
        const ibv_ah_attr way = way_of(channel);
        if (port().ethernet) {
            EXPECT_EQ(way.grh.flow_label % verbs::kMostPaths, path);
            EXPECT_GT(way.grh.flow_label, verbs::kMostPaths);
            return;
        }
        const unsigned bits = path & ((1u << port().attributes.lmc) - 1);
        EXPECT_EQ(way.src_path_bits, bits);
        EXPECT_EQ(way.dlid, port().attributes.lid | bits);
    }

    Node a_{small_settings(), two_paths()};
    int users_[4] = {};
};

TEST_F(PortPathsTest, EachHasAConnectionThatBothSidesUse) {
    Node b(small_settings(), two_paths());
    Channel* there[2];
    Channel* back[2];
    for (const uint8_t path : {0, 1}) {
        there[path] = attach(a_, b, path, &users_[path]);
        ASSERT_NE(there[path], nullptr);
        ASSERT_TRUE(a_.send(*there[path], 1, "there " + std::to_string(path), b));
        ASSERT_TRUE(until([&] { poll(a_, b); }, [&] { return b.messages.size() == path + 1u; }));
        EXPECT_EQ(b.messages.back().data, "there " + std::to_string(path));
    }
    EXPECT_NE(there[0], there[1]);
    for (const uint8_t path : {1, 0}) {
        back[path] = attach(b, a_, path, &users_[2 + path]);
        ASSERT_NE(back[path], nullptr);
        ASSERT_TRUE(b.send(*back[path], 1, "back", a_));
    }
    ASSERT_TRUE(until([&] { poll(a_, b); }, [&] { return a_.messages.size() == 2; }));
    EXPECT_EQ(a_.engine->connections(), 2u);
    EXPECT_EQ(b.engine->connections(), 2u);
    for (const uint8_t path : {0, 1}) {
        expect_path(*there[path], path);
        expect_path(*back[path], path);
        EXPECT_EQ(back[path]->qp->qp_num, there[path]->handshake.peer().qp_num);
    }
}

// Its own packets name the path of each connection.
TEST_F(PortPathsTest, ToItself) {
    for (const uint8_t path : {0, 1}) {
        Channel* const channel = attach(a_, a_, path, &users_[path]);
        ASSERT_NE(channel, nullptr);
        ASSERT_TRUE(a_.send(*channel, 1, std::to_string(path), a_));
        ASSERT_TRUE(until([&] { a_.poll(); }, [&] { return a_.messages.size() == path + 1u; }));
        expect_path(*channel, path);
    }
    EXPECT_EQ(a_.engine->connections(), 2u);
}

TEST_F(PortPathsTest, OneEndsAndTheOtherStays) {
    Node b(small_settings(), two_paths());
    Channel* there[2];
    for (const uint8_t path : {0, 1}) {
        there[path] = attach(a_, b, path, &users_[path]);
        ASSERT_TRUE(a_.send(*there[path], 1, "x", b));
    }
    const auto poll_both = [&] { poll(a_, b); };
    ASSERT_TRUE(until(poll_both, [&] { return b.messages.size() == 2; }));
    a_.engine->leave(there[1], &users_[1]);
    ASSERT_TRUE(until(
        poll_both, [&] { return a_.engine->connections() == 1 && b.engine->connections() == 1; }));
    ASSERT_TRUE(a_.send(*there[0], 1, "y", b));
    there[1] = attach(a_, b, 1, &users_[1]);
    ASSERT_TRUE(a_.send(*there[1], 1, "z", b));
    ASSERT_TRUE(until(poll_both, [&] { return b.messages.size() == 4; }));
    EXPECT_TRUE(a_.closures.empty());
}

// One packet tells it, of no path.
TEST_F(PortPathsTest, AllEndWhenThePeerLeaves) {
    std::optional<Node> b(std::in_place, small_settings(), two_paths());
    const PeerAddress gone = b->engine->address();
    for (const uint8_t path : {0, 1}) {
        Channel* const channel = attach(a_, *b, path, &users_[path]);
        ASSERT_TRUE(a_.send(*channel, 1, "x", *b));
    }
    ASSERT_TRUE(until([&] { poll(a_, *b); }, [&] { return b->messages.size() == 2; }));
    b.reset();
    ASSERT_TRUE(until([&] { a_.poll(); }, [&] { return a_.closures.size() == 2; }));
    for (const auto& [user, status] : a_.closures) EXPECT_EQ(status, Status::kOk);
    EXPECT_TRUE(a_.losses.empty()) << a_.reason;
    // Nor is there a way to it on another path.
    std::string why;
    ASSERT_NE(a_.engine->attach(gone.on_path(5), &users_[2], why), nullptr);
    ASSERT_TRUE(until([&] { a_.poll(); }, [&] { return a_.closures.size() == 3; }));
    EXPECT_EQ(a_.closures.back().second, Status::kPeerClosed);
}

TEST_F(PortPathsTest, AcceptedInTheBackground) {
    Node b(small_settings(), two_paths());
    {
        const Answerer answerer({&b});
        for (const uint8_t path : {1, 0}) {
            Channel* const channel = attach(a_, b, path, &users_[path]);
            ASSERT_TRUE(a_.send(*channel, 1, std::to_string(path), a_));
            ASSERT_TRUE(until([&] { a_.poll(); }, [&] { return channel->up(); }));
        }
    }
    ASSERT_TRUE(until([&] { poll(a_, b); }, [&] { return b.messages.size() == 2; }));
    for (const uint8_t path : {0, 1}) expect_path(*attach(b, a_, path, &users_[2 + path]), path);
    EXPECT_EQ(b.engine->connections(), 2u);
}

}  // namespace
}  // namespace tern::test
