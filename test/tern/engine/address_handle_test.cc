// SPDX-License-Identifier: BSD-3-Clause

// Datagrams to hosts that are not there, and datagram queue pairs that fail.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <mutex>

#include "node.h"
#include "tern/connection/address_handles.h"
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
    verbs::GidEntry entry{.index = on.gid_index, .roce_v2 = true};
    EXPECT_EQ(ibv_query_gid(on.context, on.number, on.gid_index, &entry.gid), 0);
    on.gid = entry.gid;
    on.roce = verbs::choose_gids({&entry, 1});
    return on;
}

TEST_F(AddressHandleTest, ARefusalForGoodFailsTheConnectionAtOnce) {
    Node node(patient()), other(patient());
    PeerAddress nobody = other.engine->address();
    nobody.interface.qp_num ^= 1;
    nobody.port.lid ^= 0x70;
    const AddressHandleHook hook(
        [&](const ibv_ah_attr& to) { return to.dlid == nobody.port.lid ? EINVAL : 0; });
    if (!nobody.port.has_lid) GTEST_SKIP() << "the port has no LID";
    ASSERT_NE(attach(node, nobody, &user), nullptr);
    ASSERT_NO_FATAL_FAILURE(expect_refused(node, EINVAL));
    Channel* channel = attach(node, other.engine->address(), &other_user);
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(arrives(node, *channel, other));
}

// The link comes back in time, on InfiniBand and on Ethernet.
TEST_F(AddressHandleTest, ALinkThatIsDownMayComeBack) {
    for (const verbs::Port& on : {port(), ethernet_port()})
        for (const int error : {ENETUNREACH, ENODEV, EHOSTUNREACH, ETIMEDOUT, EAGAIN, ENOMEM}) {
            SCOPED_TRACE(strerror(error));
            std::atomic<unsigned> tries = 0;
            std::atomic<bool> down = true;
            const AddressHandleHook hook([&](const ibv_ah_attr&) {
                if (!down) return 0;
                ++tries;
                return error;
            });
            Node node(patient(), on), other(patient(), on);
            Channel* channel = attach(node, other.engine->address(), &user);
            ASSERT_NE(channel, nullptr);
            ASSERT_TRUE(until([&] { node.poll(); }, [&] { return tries >= 6; }));
            EXPECT_TRUE(node.closures.empty()) << node.reason;
            down = false;
            EXPECT_TRUE(arrives(node, *channel, other));
            EXPECT_TRUE(node.losses.empty());
        }
}

TEST_F(AddressHandleTest, ALinkThatStaysDownIsTheReasonAtTheLimit) {
    EngineSettings settings = patient();
    settings.handshake.connect_limit = 100'000'000;
    const AddressHandleHook hook([](const ibv_ah_attr&) { return ENETUNREACH; });
    Node node(settings), other(settings);
    ASSERT_NE(attach(node, other.engine->address(), &user), nullptr);
    ASSERT_TRUE(until([&] { node.poll(); }, [&] { return !node.closures.empty(); }));
    EXPECT_EQ(node.closures[0].second, Status::kTimedOut);
    EXPECT_NE(node.reason.find(strerror(ENETUNREACH)), std::string::npos) << node.reason;
}

// Of handles that are made for others, the oldest gives way.
TEST_F(AddressHandleTest, ADeviceMayHaveRoomForFew) {
    if (!port().attributes.lid) GTEST_SKIP() << "the port has no LID";
    std::atomic<bool> full = false;
    const AddressHandleHook hook(
        [&](const ibv_ah_attr&) { return full.exchange(false) ? ENOMEM : 0; });
    Node node(patient()), other(patient());
    PeerAddress nobody = other.engine->address();
    nobody.interface.qp_num ^= 1;
    nobody.port.lid ^= 0x70;
    ASSERT_NE(attach(node, nobody, &user), nullptr);
    full = true;
    Channel* channel = attach(node, other.engine->address(), &other_user);
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(arrives(node, *channel, other));
    EXPECT_FALSE(full);
}

// A port with one GID, of this family.
PortAddress on_ethernet(unsigned family, const std::array<uint8_t, 16>& gid) {
    PortAddress port;
    port.ethernet = true;
    port.roce.families = static_cast<uint8_t>(1U << family);
    port.roce.gids[family] = gid;
    return port;
}

// A router may connect two subnets, or the rails be isolated.
TEST_F(AddressHandleTest, TheDeviceKnowsTheWayToAnotherSubnet) {
    verbs::Port on = port();
    on.ethernet = true;
    const auto address = [](uint8_t subnet, uint8_t host) {
        return on_ethernet(0, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, subnet, host});
    };
    on.roce.set = address(2, 1).roce;
    int error = ENETUNREACH;
    unsigned asked = 0;
    const AddressHandleHook hook([&](const ibv_ah_attr&) {
        ++asked;
        return error;
    });
    ibv_pd* const pd = device().pd.get();
    Routes routes;
    EXPECT_TRUE(routes.reach(pd, on, address(2, 7)));
    EXPECT_EQ(asked, 0u) << "the own subnet";
    for (const int none : {ENETUNREACH, EHOSTUNREACH, ENODEV}) {
        error = none;
        EXPECT_FALSE(routes.reach(pd, on, address(3, 7))) << none;
    }
    error = ETIMEDOUT;
    EXPECT_TRUE(routes.reach(pd, on, address(3, 7))) << "there is a way";
    error = 0;
    EXPECT_TRUE(routes.reach(pd, on, address(3, 7)));
    on.local_subnet = true;
    EXPECT_FALSE(routes.reach(pd, on, address(3, 7))) << "the user wants the own subnet only";
    EXPECT_TRUE(routes.reach(pd, on, address(2, 7)));
    on.local_subnet = false;
    on.ethernet = false;
    EXPECT_TRUE(routes.reach(pd, on, address(3, 7))) << "on InfiniBand, the fabric knows";
    EXPECT_EQ(Routes::subnet_bits(0x7f000001), 8u) << "127.0.0.1";
    EXPECT_EQ(Routes::subnet_bits(0xc0000201), 24u) << "no address of this machine";
}

// Of IPv6, the first half names the subnet.
TEST_F(AddressHandleTest, TheOwnSubnetOfIpv6) {
    verbs::Port on = port();
    on.ethernet = true;
    const auto address = [](uint8_t subnet, uint8_t host) {
        return on_ethernet(1, {0x20, 1, 0xd, 0xb8, 0, 0, 0, subnet, 0, 0, 0, 0, 0, 0, 0, host});
    };
    on.roce.set = address(2, 1).roce;
    ibv_pd* const pd = device().pd.get();
    Routes routes;
    EXPECT_TRUE(routes.reach(pd, on, address(3, 7)));
    on.local_subnet = true;
    EXPECT_FALSE(routes.reach(pd, on, address(3, 7)));
    EXPECT_TRUE(routes.reach(pd, on, address(2, 7)));
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
    const verbs::GidFamily family = verbs::first_family(on.roce.set);
    verbs::GidSet dead_set = on.roce.set;
    dead_set.gids[static_cast<size_t>(kind_of(family))][15] ^= 0x55;
    const ibv_gid dead = verbs::to_gid(dead_set.of(kind_of(family)));
    const AddressHandleHook hook([&](const ibv_ah_attr& to) {
        if (memcmp(&to.grh.dgid, &dead, sizeof(dead)) != 0) return 0;
        ++tries;
        ended.wait();
        return ETIMEDOUT;
    });
    Node node(patient(), on), other(patient(), on);
    PeerAddress nobody = other.engine->address();
    nobody.port.roce = dead_set;
    ASSERT_NE(attach(node, nobody, &user), nullptr);
    EXPECT_TRUE(until([&] { node.poll(); }, [&] { return tries != 0; }));
    Channel* channel = attach(node, other.engine->address(), &other_user);
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(arrives(node, *channel, other));
    EXPECT_TRUE(node.closures.empty());
    end.set_value();
    EXPECT_TRUE(until([&] { node.poll(); }, [&] { return tries >= 3; })) << "it may come back";
    EXPECT_TRUE(node.closures.empty());
}

// The port with one entry of its GID table, or, for -1, with those that it chooses.
verbs::Port port_with(int gid_index) {
    verbs::PortTrouble trouble;
    const auto on = verbs::open_port(device(), port().number, {.gid_index = gid_index}, trouble);
    EXPECT_TRUE(on) << trouble.why;
    return on ? *on : port();
}

// -1, and the entries that are set.
std::vector<int> gid_indices() {
    std::vector<int> indices{-1};
    for (int i = 0; i < port().attributes.gid_tbl_len; ++i) {
        ibv_gid gid{};
        if (ibv_query_gid(port().context, port().number, i, &gid) == 0 && !verbs::is_zero(gid))
            indices.push_back(i);
    }
    return indices;
}

TEST_F(AddressHandleTest, NodesUseTheGidsThatBothHave) {
    if (!port().ethernet) GTEST_SKIP() << "the device routes by LID";
    const std::vector<int> indices = gid_indices();
    for (const int a : indices)
        for (const int b : indices) {
            SCOPED_TRACE(testing::Message() << "entries " << a << " and " << b);
            Node node(patient(), port_with(a)), other(patient(), port_with(b));
            std::mutex mutex;
            std::vector<ibv_global_route> ways;
            const AddressHandleHook hook([&](const ibv_ah_attr& to) {
                const std::lock_guard lock(mutex);
                ways.push_back(to.grh);
                return 0;
            });
            Channel* channel = attach(node, other.engine->address(), &user);
            ASSERT_NE(channel, nullptr);
            if (a >= 0 && b >= 0 && a != b) {
                ASSERT_NO_FATAL_FAILURE(expect_refused(node, EAFNOSUPPORT));
                EXPECT_TRUE(ways.empty());
                continue;
            }
            ASSERT_TRUE(arrives(node, *channel, other));
            const std::lock_guard lock(mutex);
            ASSERT_EQ(ways.size(), 2u) << "one by each node";
            ibv_gid own{};
            for (const ibv_global_route& way : ways) {
                EXPECT_EQ(way.sgid_index, std::max(a, b) >= 0 ? std::max(a, b) : port().gid_index);
                EXPECT_EQ(ibv_query_gid(port().context, port().number, way.sgid_index, &own), 0);
                EXPECT_EQ(memcmp(own.raw, way.dgid.raw, sizeof(own.raw)), 0);
            }
        }
}

// As in a container, which sees the GIDs of other network namespaces too.
TEST_F(AddressHandleTest, GidsThatCannotBeUsedAreNotTaken) {
    if (!port().ethernet) GTEST_SKIP() << "the device routes by LID";
    const verbs::GidSet all = port().roce.set;
    const verbs::GidFamily first = verbs::first_family(all);
    const AddressHandleHook foreign([&](const ibv_ah_attr& to) {
        return memcmp(to.grh.dgid.raw, all.of(kind_of(first)).data(), 16) == 0 ? ENODEV : 0;
    });
    const verbs::GidSet usable = port_with(-1).roce.set;
    EXPECT_FALSE(usable.has(kind_of(first)));
    EXPECT_NE(usable.families, 0);
    const AddressHandleHook none([](const ibv_ah_attr&) { return ENODEV; });
    EXPECT_EQ(port_with(-1).roce.set, all) << "nothing is known then";
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

// Posts a send from memory that is not registered.
void post_bad_send(ibv_qp* qp) {
    ibv_ah_attr to = port().address_vector(port().attributes.lid, port().gid, port().global);
    ibv_ah* const handle = ibv_create_ah(device().pd.get(), &to);
    ASSERT_NE(handle, nullptr);
    char bytes[8] = {};
    ibv_sge piece{.addr = reinterpret_cast<uint64_t>(bytes), .length = sizeof(bytes), .lkey = 0};
    ibv_send_wr request{};
    request.wr_id = uint64_t{1} << 32 | 31;  // the last place for a datagram
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud.ah = handle;
    request.wr.ud.remote_qpn = qp->qp_num;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &request, &bad), 0);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    ibv_qp_init_attr unused{};
    EXPECT_TRUE(until([&] { ibv_query_qp(qp, &attributes, IBV_QP_STATE, &unused); },
                      [&] { return attributes.qp_state != IBV_QPS_RTS; }));
    EXPECT_EQ(attributes.qp_state, IBV_QPS_SQE);
    EXPECT_EQ(ibv_destroy_ah(handle), 0);
}

TEST_F(AddressHandleTest, ADatagramQueuePairSendsAgainAfterAFailedSend) {
    Node node;
    ibv_qp* const qp = last_datagram_qp();
    Node other;
    ASSERT_NO_FATAL_FAILURE(post_bad_send(qp));
    Channel* channel = attach(node, other.engine->address(), &user);
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(arrives(node, *channel, other));
    EXPECT_TRUE(node.breakdowns.empty() && node.losses.empty());
}

}  // namespace address_handle_test
}  // namespace tern::test
