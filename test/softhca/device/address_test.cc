// SPDX-License-Identifier: BSD-3-Clause
// Addresses: of processes that have their own, of ports in different subnets, and the GID tables of
// Ethernet ports.
#include <endian.h>

#include <cstring>
#include <vector>

#include "fabric.h"

namespace conformance::softhca::address {
namespace {

class AddressTest : public FabricTest {
  protected:
    void SetUp() override {
        FabricTest::SetUp();
        set("ADDRESSES", "per-process");
    }
};

// Two processes exchange their peers; the second one writes to the first and sees `status`. With
// `wrong`, it uses its own address for that of the first.
void write_across(bool wrong, ibv_wc_status status) {
    Team team;
    const auto play = [&](Link& link, bool writes) {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Region memory(pd.get(), 4096);
        const Endpoint end(hca, pd.get(), quick());
        link.send(as_peer(hca, end.qp.get(), end.spec));
        Peer peer = link.receive<Peer>();
        const Address here = hca.address();
        EXPECT_NE(std::memcmp(&peer.address.gid, &here.gid, sizeof here.gid), 0);
        EXPECT_TRUE(hca.needs_grh() || peer.address.lid != here.lid);
        if (wrong && writes) peer.address = hca.address();
        bring_up(hca, end.qp.get(), end.spec, peer);
        link.send(uint64_t{memory.addr()});
        const auto addr = link.receive<uint64_t>();
        link.send(memory.rkey());
        const auto rkey = link.receive<uint32_t>();
        if (writes) {
            ASSERT_EQ(
                SendWr(IBV_WR_RDMA_WRITE, 1).sge(memory.sge(0, 8)).remote(addr, rkey).post(end.qp),
                0);
            EXPECT_TRUE(next_are(end.send_cq, {1}, status));
        }
        link.send();
        link.receive();
    };
    const int one = team.spawn([&](Link& link) { play(link, false); });
    const int two = team.spawn([&](Link& link) { play(link, true); });
    exchange<Peer>(team[one], team[two]);
    exchange<uint64_t>(team[one], team[two]);
    exchange<uint32_t>(team[one], team[two]);
    exchange<char>(team[one], team[two]);
    team.finish();
}

TEST_F(AddressTest, ProcessesReachEachOtherByTheirOwnAddresses) {
    for (const char* layer : {"infiniband", "ethernet"}) {
        set("LINK_LAYER", layer);
        write_across(false, IBV_WC_SUCCESS);
    }
}

TEST_F(AddressTest, NumberOfAnotherProcessIsNotAtThisAddress) {
    for (const char* layer : {"infiniband", "ethernet"}) {
        set("LINK_LAYER", layer);
        write_across(true, IBV_WC_RETRY_EXC_ERR);
    }
}

// An endpoint posts a receive, of this number, and sends a datagram to itself.
void send_to_itself(const Endpoint& end, const Region& memory, const Ah& ah, uint64_t receive) {
    ASSERT_EQ(RecvWr(receive).sge(memory.sge()).post(end.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, receive + 1)
                  .sge(memory.sge(0, 8))
                  .to(ah.get(), end.qp->qp_num, kQkey)
                  .post(end.qp),
              0);
}

TEST_F(AddressTest, DatagramsCarryTheAddressOfTheirProcess) {
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Region memory(pd.get(), 4096);
        QpSpec spec;
        spec.type = IBV_QPT_UD;
        const Endpoint end(hca, pd.get(), spec);
        bring_up(hca, end.qp.get(), spec, {});
        const Ah ah = hca.make_ah(pd.get(), hca.address());
        send_to_itself(end, memory, ah, 1);
        const ibv_wc wc = poll_one(end.recv_cq);
        ASSERT_TRUE(is_done(wc, 1));
        EXPECT_EQ(wc.slid, hca.port_attr().lid);
        Address wrong = hca.address();
        wrong.lid = static_cast<uint16_t>(wrong.lid < 64 ? wrong.lid + 32 : wrong.lid - 32);
        const Ah nobody = hca.make_ah(pd.get(), wrong);
        send_to_itself(end, memory, nobody, 3);
        EXPECT_TRUE(quiet(end.recv_cq));
    });
}

class PortTest : public FabricTest {};

TEST_F(PortTest, SubnetsAreApart) {
    set("PORTS", "2");
    set("SUBNETS", "per-port");
    alone([] {
        const Hca one = open(0, 1, 0);
        const Hca two = open(0, 2, 0);
        EXPECT_NE(one.address().gid.global.subnet_prefix, two.address().gid.global.subnet_prefix);
        const QpSpec spec = quick();
        const Pd pd = one.make_pd();
        const Pd far = two.make_pd();
        const auto write = [&](const Hca& to_hca, ibv_pd* to_pd, ibv_wc_status status) {
            const Endpoint from(one, pd.get(), spec);
            const Endpoint to(to_hca, to_pd, spec);
            bring_up(to_hca, to.qp.get(), spec, as_peer(one, from.qp.get(), spec));
            bring_up(one, from.qp.get(), spec, as_peer(to_hca, to.qp.get(), spec));
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).post(from.qp), 0);
            EXPECT_TRUE(next_are(from.send_cq, {1}, status));
        };
        write(one, pd.get(), IBV_WC_SUCCESS);
        write(two, far.get(), IBV_WC_RETRY_EXC_ERR);
    });
}

// Processes that share nothing, as in two containers, would otherwise have one address.
TEST_F(PortTest, EachFabricIsASubnet) {
    const auto prefix = [] {
        Team team;
        const int one = team.spawn(
            [](Link& link) { link.send(uint64_t{Hca().address().gid.global.subnet_prefix}); });
        const auto found = team[one].receive<uint64_t>();
        team.finish();
        return found;
    };
    const uint64_t first = prefix();
    EXPECT_NE(prefix(), first) << "a new fabric";
    for (const char* same : {"LINK_LAYER=ethernet", "CLOCK=virtual"}) {
        const std::string setting = same;
        set(setting.substr(0, setting.find('=')).c_str(), setting.substr(setting.find('=') + 1));
        EXPECT_EQ(be64toh(prefix()), 0xfe80000000000000) << same;
    }
}

// Two queue pairs of a port that send to each other by its LIDs with these path bits.
ibv_wc_status write_on_paths(const Hca& hca, unsigned one_bits, unsigned other_bits) {
    const Pd pd = hca.make_pd();
    const QpSpec spec = quick();
    const Endpoint one(hca, pd.get(), spec), other(hca, pd.get(), spec);
    const auto connect = [&](const Endpoint& from, const Endpoint& to, unsigned own,
                             unsigned there) {
        Step to_ready = to_rtr(hca, spec, as_peer(hca, to.qp.get(), spec));
        to_ready.attr.ah_attr.src_path_bits = static_cast<uint8_t>(own);
        to_ready.attr.ah_attr.dlid |= static_cast<uint16_t>(there);
        apply_all(from.qp.get(), {to_init(hca, spec), to_ready, to_rts(spec)});
    };
    connect(one, other, one_bits, one_bits);
    connect(other, one, other_bits, other_bits);
    EXPECT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).post(one.qp), 0);
    return poll_one(one.send_cq).status;
}

TEST_F(PortTest, HasSeveralLids) {
    set("RULES", "lmc=2");
    set("PORTS", "2");
    alone([] {
        const Hca hca = open(0, 1, 0);
        EXPECT_EQ(hca.port_attr().lmc, 2);
        EXPECT_EQ(hca.port_attr().lid % 4, 0);
        EXPECT_GE(open(0, 2, 0).port_attr().lid, hca.port_attr().lid + 4);
        for (unsigned bits = 0; bits < 4; ++bits)
            EXPECT_EQ(write_on_paths(hca, bits, bits), IBV_WC_SUCCESS) << bits;
        EXPECT_EQ(write_on_paths(hca, 1, 2), IBV_WC_RETRY_EXC_ERR) << "of packets of the other";
    });
}

TEST_F(PortTest, DatagramsNameTheLidsOfBothPorts) {
    set("RULES", "lmc=2");
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Region memory(pd.get(), 4096);
        QpSpec spec;
        spec.type = IBV_QPT_UD;
        const Endpoint end(hca, pd.get(), spec);
        bring_up(hca, end.qp.get(), spec, {});
        ibv_ah_attr address{};
        address.port_num = 1;
        address.dlid = hca.port_attr().lid | 1;
        address.src_path_bits = 3;
        const Ah ah(ibv_create_ah(pd.get(), &address));
        ASSERT_TRUE(ah);
        send_to_itself(end, memory, ah, 1);
        const ibv_wc wc = poll_one(end.recv_cq);
        ASSERT_TRUE(is_done(wc, 1));
        EXPECT_EQ(wc.slid, hca.port_attr().lid | 3);
        EXPECT_EQ(wc.dlid_path_bits, 1);
        address.src_path_bits = 4;
        EXPECT_FALSE(Ah(ibv_create_ah(pd.get(), &address))) << "the port has no such LID";
    });
}

// Types and kinds of the GIDs of an Ethernet port, in order: 1 or 2 for the version of RoCE, and
// whether the GID is link-local.
using Table = std::vector<std::pair<int, bool>>;

Table gid_table(const Hca& hca) {
    Table table;
    ibv_gid_entry entry{};
    for (uint32_t i = 0; ibv_query_gid_ex(hca.get(), 1, i, &entry, 0) == 0; ++i)
        table.emplace_back(entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 1,
                           entry.gid.raw[0] == 0xfe && entry.gid.raw[1] == 0x80);
    return table;
}

TEST_F(PortTest, GidTableBeginsWithTheLinkLocalAddress) {
    set("LINK_LAYER", "ethernet");
    const std::pair<const char*, Table> kinds[] = {
        {"default", {{2, true}, {2, false}}},
        {"mlx4", {{1, true}, {1, false}}},
        {"mlx5", {{1, true}, {2, true}, {1, false}, {2, false}}},
    };
    for (const auto& [name, table] : kinds) {
        set("PERSONALITY", name);
        alone([&expected = table] { EXPECT_EQ(gid_table(Hca()), expected); });
    }
}

}  // namespace
}  // namespace conformance::softhca::address
