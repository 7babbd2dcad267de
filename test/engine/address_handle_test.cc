// SPDX-License-Identifier: BSD-3-Clause

// Datagrams to hosts that are not there, and datagram queue pairs that fail.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>

#include "node.h"
#include "verbs_faults.h"

namespace tern::test {
namespace address_handle_test {

class AddressHandleTest : public testing::Test {
  protected:
    // Peers that are silent are waited for, longer than the test lasts.
    static EngineSettings patient() {
        EngineSettings settings = quick_settings();
        settings.handshake.connect_limit = 600'000'000'000;
        return settings;
    }
    static Channel* attach(Node& from, const PeerAddress& to, void* user) {
        std::string why;
        Channel* channel = from.engine->attach(to, user, why);
        EXPECT_NE(channel, nullptr) << why;
        return channel;
    }
    static bool arrives(Node& from, Channel& channel, Node& to) {
        return from.send(channel, 1, "hello", to) && until(
                                                         [&] {
                                                             from.poll();
                                                             to.poll();
                                                         },
                                                         [&] { return !to.messages.empty(); });
    }
    static void expect_refused(Node& node, int error) {
        EXPECT_TRUE(until([&] { node.poll(); }, [&] { return !node.closures.empty(); }));
        ASSERT_EQ(node.closures.size(), 1u);
        EXPECT_EQ(node.closures[0].second, Status::kRefused);
        EXPECT_NE(node.reason.find(strerror(error)), std::string::npos) << node.reason;
    }

    int user = 0, other_user = 0;
};

// The port as one of a RoCE device, where the kernel resolves the address of each handle.
verbs::Port ethernet_port() {
    verbs::Port on = port();
    on.ethernet = on.global = true;
    EXPECT_EQ(ibv_query_gid(on.context, on.number, on.gid_index, &on.gid), 0);
    return on;
}

TEST_F(AddressHandleTest, ARefusalFailsTheConnectionAtOnce) {
    Node node(patient()), other(patient());
    PeerAddress nobody = other.engine->address();
    nobody.interface.qp_num ^= 1;
    nobody.port.lid ^= 0x70;
    const AddressHandleHook hook(
        [&](const ibv_ah_attr& to) { return to.dlid == nobody.port.lid ? EHOSTUNREACH : 0; });
    if (!nobody.port.has_lid) GTEST_SKIP() << "the port has no LID";
    ASSERT_NE(attach(node, nobody, &user), nullptr);
    ASSERT_NO_FATAL_FAILURE(expect_refused(node, EHOSTUNREACH));
    Channel* channel = attach(node, other.engine->address(), &other_user);
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(arrives(node, *channel, other));
}

TEST_F(AddressHandleTest, AreKept) {
    Node node, other;
    unsigned made = 0;
    const AddressHandleHook hook([&](const ibv_ah_attr&) {
        ++made;
        return 0;
    });
    for (int i = 0; i < 5; ++i) {
        Channel* channel = attach(node, other.engine->address(), &user);
        ASSERT_NE(channel, nullptr);
        ASSERT_TRUE(arrives(node, *channel, other));
        other.messages.clear();
        node.engine->leave(channel, &user);
        ASSERT_TRUE(until(
            [&] {
                node.poll();
                other.poll();
            },
            [&] { return node.engine->connections() + other.engine->connections() == 0; }));
    }
    EXPECT_EQ(made, 2u) << "one by each node";
}

// The kernel waits for a dead host, and the peers on other hosts are connected meanwhile.
TEST_F(AddressHandleTest, ADeadHostDelaysNobodyElse) {
    if (!port().ethernet) GTEST_SKIP() << "the device routes by LID";
    const verbs::Port on = port();
    std::promise<void> end;
    const std::shared_future<void> ended = end.get_future().share();
    std::atomic<unsigned> tries = 0;
    ibv_gid dead = on.gid;
    dead.raw[15] ^= 0x55;
    const AddressHandleHook hook([&](const ibv_ah_attr& to) {
        if (memcmp(&to.grh.dgid, &dead, sizeof(dead)) != 0) return 0;
        ++tries;
        ended.wait();
        return ETIMEDOUT;
    });
    Node node(patient(), on), other(patient(), on);
    PeerAddress nobody = other.engine->address();
    std::copy(std::begin(dead.raw), std::end(dead.raw), nobody.port.gid.begin());
    ASSERT_NE(attach(node, nobody, &user), nullptr);
    EXPECT_TRUE(until([&] { node.poll(); }, [&] { return tries != 0; }));
    Channel* channel = attach(node, other.engine->address(), &other_user);
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(arrives(node, *channel, other));
    EXPECT_TRUE(node.closures.empty());
    end.set_value();
    ASSERT_NO_FATAL_FAILURE(expect_refused(node, ETIMEDOUT));
    EXPECT_EQ(tries, 3u);
}

TEST_F(AddressHandleTest, ANodeMayEndMeanwhile) {
    const verbs::Port on = ethernet_port();
    const AddressHandleHook hook([](const ibv_ah_attr&) { return ETIMEDOUT; });
    Node other(patient(), on);
    for (int i = 0; i < 50; ++i) {
        Node node(patient(), on);
        ASSERT_NE(attach(node, other.engine->address(), &user), nullptr);
        for (int j = 0; j < i; ++j) node.poll();
    }
}

TEST_F(AddressHandleTest, AFailedDatagramQueuePairIsStartedAgain) {
    Node node;
    ibv_qp* const qp = last_datagram_qp();
    Node other;
    ASSERT_EQ(verbs::to_error(qp), 0);
    Channel* channel = attach(node, other.engine->address(), &user);
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(arrives(node, *channel, other));
    EXPECT_TRUE(node.breakdowns.empty() && node.losses.empty());
}

}  // namespace address_handle_test
}  // namespace tern::test
