// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups, and datagrams that get lost.
#include <cerrno>
#include <cstring>

#include "fabric.h"

namespace conformance::softhca::multicast {
namespace {

constexpr uint32_t kGroupQpn = 0xffffff;
constexpr std::size_t kGrh = 40;

struct Group {
    explicit Group(uint8_t last, const char* layer = "infiniband") : lid(0xc000 + last) {
        const bool ipv4 = std::strcmp(layer, "ethernet") == 0;  // 239.1.1.x, as with RoCE
        const uint8_t bytes[2][16] = {{0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last},
                                      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 1, last}};
        std::memcpy(gid.raw, bytes[ipv4 ? 1 : 0], sizeof gid.raw);
    }
    ibv_gid gid{};
    uint16_t lid;
};

// A UD queue pair that is ready.
struct Node {
    explicit Node(const Hca& own) : hca(own), pd(own.make_pd()), end(own, pd.get(), ud()) {
        bring_up(own, end.qp.get(), end.spec, {});
    }
    static QpSpec ud() {
        QpSpec spec;
        spec.type = IBV_QPT_UD;
        return spec;
    }
    int attach(const Group& group) const {
        return ibv_attach_mcast(end.qp.get(), &group.gid, group.lid);
    }
    int detach(const Group& group) const {
        return ibv_detach_mcast(end.qp.get(), &group.gid, group.lid);
    }
    void receive(uint64_t id) const {
        ASSERT_EQ(RecvWr(id).sge(memory.sge(4096, 4096)).post(end.qp), 0);
    }
    Ah path(const Group& group) const {
        ibv_ah_attr attributes{};
        attributes.is_global = 1;
        attributes.grh.dgid = group.gid;
        attributes.grh.hop_limit = 1;
        attributes.dlid = group.lid;
        attributes.port_num = hca.port();
        return Ah(ibv_create_ah(pd.get(), &attributes));
    }
    void send(const Group& group, uint64_t id, uint32_t qkey = kQkey) const {
        const Ah ah = path(group);
        ASSERT_NE(ah, nullptr);
        ASSERT_EQ(SendWr(IBV_WR_SEND, id)
                      .sge(memory.sge(0, 64))
                      .to(ah.get(), kGroupQpn, qkey)
                      .post(end.qp),
                  0);
        EXPECT_TRUE(next_are(end.send_cq, {id}));
    }
    void expect(uint64_t id, const Group& group, uint32_t from, unsigned seed) const {
        const ibv_wc wc = poll_one(end.recv_cq);
        ASSERT_TRUE(is_done(wc, id));
        EXPECT_EQ(wc.byte_len, kGrh + 64);
        EXPECT_EQ(wc.src_qp, from);
        EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
        ibv_grh grh;
        std::memcpy(&grh, memory.data() + 4096, sizeof grh);
        EXPECT_EQ(std::memcmp(&grh.dgid, &group.gid, sizeof grh.dgid), 0);
        EXPECT_TRUE(memory.holds(seed, 4096 + kGrh, 64));
    }

    const Hca& hca;
    Pd pd;
    Region memory{pd.get(), 8192};
    Endpoint end;
};

class MulticastTest : public FabricTest {};

TEST_F(MulticastTest, EachMemberOfTheGroupGetsACopy) {
    for (const char* layer : {"infiniband", "ethernet"}) {
        set("LINK_LAYER", layer);
        set("ADDRESSES", std::strcmp(layer, "ethernet") == 0 ? "per-process" : "shared");
        alone([&] {
            const Hca hca;
            EXPECT_GT(hca.attr().max_mcast_grp, 0);
            const Group group(1, layer);
            const Group other(2, layer);
            const Node sender(hca), one(hca), two(hca), elsewhere(hca);
            ASSERT_EQ(one.attach(group), 0);
            ASSERT_EQ(one.attach(group), 0) << "again has no effect";
            ASSERT_EQ(two.attach(group), 0);
            ASSERT_EQ(elsewhere.attach(other), 0);
            for (const Node* node : {&one, &two, &elsewhere, &sender}) node->receive(7);
            sender.memory.fill(3, 0, 64);
            sender.send(group, 1);
            one.expect(7, group, sender.end.qp->qp_num, 3);
            two.expect(7, group, sender.end.qp->qp_num, 3);
            for (const Node* node : {&one, &two, &elsewhere, &sender})
                EXPECT_TRUE(quiet(node->end.recv_cq));
            EXPECT_EQ(ibv_destroy_qp(one.end.qp.get()), EBUSY) << "while it is attached";
            ASSERT_EQ(one.detach(group), 0);
            EXPECT_EQ(one.detach(group), EINVAL);
            one.receive(8);
            two.receive(8);
            sender.send(group, 2);
            two.expect(8, group, sender.end.qp->qp_num, 3);
            EXPECT_TRUE(quiet(one.end.recv_cq));
            ASSERT_EQ(two.detach(group), 0);
            ASSERT_EQ(elsewhere.detach(other), 0);
            sender.send(group, 3);  // to nobody
        });
    }
}

TEST_F(MulticastTest, ReachesOtherProcessesUntilTheyEnd) {
    for (const char* profile : {"ideal", "graphene"}) {
        set("PROFILE", profile);
        Team team;
        const auto member = [](Link& link) {
            const Hca hca;
            const Node node(hca);
            ASSERT_EQ(node.attach(Group(1)), 0);
            node.receive(1);
            link.send();
            const auto from = link.receive<uint32_t>();
            node.expect(1, Group(1), from, 9);
            link.send();
            link.receive();
            ASSERT_EQ(node.detach(Group(1)), 0);
        };
        const int one = team.spawn(member);
        const int two = team.spawn(member);
        const int sender = team.spawn([](Link& link) {
            const Hca hca;
            const Node node(hca);
            node.memory.fill(9, 0, 64);
            link.send(node.end.qp->qp_num);
            link.receive();
            node.send(Group(1), 1);
            link.receive();
            node.send(Group(1), 2);  // one member was killed
        });
        const auto number = team[sender].receive<uint32_t>();
        for (const int at : {one, two}) {
            team[at].receive();
            team[at].send(number);
        }
        team[sender].send();
        for (const int at : {one, two}) team[at].receive();
        team.kill(one);
        team[sender].send();
        team[two].send();
        team.finish();
    }
}

TEST_F(MulticastTest, WrongKeysAndGroupsReachNobody) {
    alone([] {
        const Hca hca;
        const Node sender(hca), member(hca);
        const Group group(1);
        ASSERT_EQ(member.attach(group), 0);
        member.receive(1);
        sender.send(group, 1, kQkey + 1);
        sender.send(Group(2), 2);
        EXPECT_TRUE(quiet(member.end.recv_cq));
        ASSERT_EQ(member.detach(group), 0);

        Group unicast(1);
        unicast.gid = hca.address().gid;
        EXPECT_EQ(member.attach(unicast), EINVAL);
        Group wrong_lid(1);
        wrong_lid.lid = 1;
        EXPECT_EQ(member.attach(wrong_lid), EINVAL);
        const Endpoint connected(hca, member.pd.get(), quick());
        EXPECT_EQ(ibv_attach_mcast(connected.qp.get(), &group.gid, group.lid), EINVAL);
    });
}

TEST_F(MulticastTest, HasItsLimitAndFreesWhatIsDetached) {
    alone([] {
        const Hca hca;
        const Node node(hca);
        const int most = hca.attr().max_total_mcast_qp_attach;
        for (int round = 0; round < 2; ++round) {
            for (int i = 0; i < most; ++i)
                ASSERT_EQ(node.attach(Group(static_cast<uint8_t>(i))), 0) << i;
            EXPECT_EQ(node.attach(Group(static_cast<uint8_t>(most))), ENOMEM);
            for (int i = 0; i < most; ++i)
                ASSERT_EQ(node.detach(Group(static_cast<uint8_t>(i))), 0) << i;
        }
    });
}

TEST_F(MulticastTest, DeviceWithoutItSaysSo) {
    set("RULES", "multicast=0");
    alone([] {
        const Hca hca;
        const Node node(hca);
        EXPECT_EQ(hca.attr().max_mcast_grp, 0);
        EXPECT_EQ(node.attach(Group(1)), EOPNOTSUPP);
    });
}

// Of 400 datagrams, which all have a receive, about a quarter vanishes, and the sender sees nothing
// of that.
TEST_F(MulticastTest, DatagramsVanishByAFault) {
    alone([] {
        constexpr int kMessages = 400;
        const Hca hca;
        const Node sender(hca), receiver(hca);
        const Ah ah = hca.make_ah(sender.pd.get(), hca.address());
        inject("lose=4");
        receiver.receive(1);
        int arrived = 0;
        for (uint64_t id = 1; id <= kMessages; ++id) {
            ASSERT_EQ(SendWr(IBV_WR_SEND, id)
                          .sge(sender.memory.sge(0, 8))
                          .to(ah.get(), receiver.end.qp->qp_num, kQkey)
                          .post(sender.end.qp),
                      0);
            ASSERT_TRUE(next_are(sender.end.send_cq, {id}));
            ibv_wc wc;
            const int polled = ibv_poll_cq(receiver.end.recv_cq.get(), 1, &wc);
            ASSERT_GE(polled, 0);
            arrived += polled;
            if (polled == 1) receiver.receive(id);
        }
        EXPECT_GT(arrived, kMessages / 2);
        EXPECT_LT(arrived, kMessages * 9 / 10);
        EXPECT_EQ(sum(status(), "dropped"), static_cast<uint64_t>(kMessages - arrived));
        EXPECT_EQ(faults(), "lose=4");
        inject("none");
    });
}

}  // namespace
}  // namespace conformance::softhca::multicast
