// SPDX-License-Identifier: BSD-3-Clause
// The effect of the settings on the device.
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fabric.h"

namespace conformance::softhca {
namespace {

class SettingsTest : public FabricTest {};

int device_count() {
    int count = -1;
    ibv_free_device_list(ibv_get_device_list(&count));
    return count;
}

// A port, and the objects to communicate over it.
struct Place {
    Place(unsigned device, unsigned port, unsigned gid_index = 0)
        : hca(open(device, port, gid_index)), memory(pd.get(), 4096) {}
    Hca hca;
    Pd pd = hca.make_pd();
    Region memory;
};

// Sends and writes from one place to another, and checks the data.
void talk(const Place& from, const Place& to, unsigned seed) {
    const QpSpec spec;
    Endpoint sender(from.hca, from.pd.get(), spec);
    Endpoint receiver(to.hca, to.pd.get(), spec);
    bring_up(to.hca, receiver.qp.get(), spec, as_peer(from.hca, sender.qp.get(), spec));
    bring_up(from.hca, sender.qp.get(), spec, as_peer(to.hca, receiver.qp.get(), spec));
    ASSERT_EQ(RecvWr(1).sge(to.memory.sge(1000, 1000)).post(receiver.qp), 0);
    from.memory.fill(seed, 2000, 1000);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2)
                  .sge(from.memory.sge(2000, 1000))
                  .remote(to.memory)
                  .post(sender.qp),
              0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 3).sge(from.memory.sge(2000, 1000)).post(sender.qp), 0);
    ASSERT_TRUE(next_are(sender.send_cq, {2, 3}));
    ASSERT_TRUE(next_are(receiver.recv_cq, {1}));
    EXPECT_TRUE(to.memory.holds(seed, 0, 1000));
    EXPECT_TRUE(to.memory.holds(seed, 1000, 1000));
}

// Sends a datagram and checks the reported sender and its address.
void tell(const Place& from, const Place& to) {
    QpSpec spec;
    spec.type = IBV_QPT_UD;
    Endpoint sender(from.hca, from.pd.get(), spec);
    Endpoint receiver(to.hca, to.pd.get(), spec);
    bring_up(from.hca, sender.qp.get(), spec, {});
    bring_up(to.hca, receiver.qp.get(), spec, {});
    Ah ah = from.hca.make_ah(from.pd.get(), to.hca.address());
    ASSERT_EQ(RecvWr(1).sge(to.memory.sge()).post(receiver.qp), 0);
    from.memory.fill(9, 3000, 100);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2)
                  .sge(from.memory.sge(3000, 100))
                  .to(ah.get(), receiver.qp->qp_num, kQkey)
                  .post(sender.qp),
              0);
    const ibv_wc wc = poll_one(receiver.recv_cq);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.src_qp, sender.qp->qp_num);
    EXPECT_EQ(wc.slid, from.hca.port_attr().lid);
    EXPECT_TRUE(to.memory.holds(9, 40, 100));
    EXPECT_EQ((wc.wc_flags & IBV_WC_GRH) != 0, from.hca.needs_grh());
    if (from.hca.needs_grh()) {
        const auto* grh = reinterpret_cast<const ibv_grh*>(to.memory.data());
        const ibv_gid here = from.hca.address().gid;
        EXPECT_EQ(std::memcmp(&grh->sgid, &here, sizeof here), 0);
    }
}

void everybody_talks(unsigned gid_index) {
    std::vector<std::unique_ptr<Place>> places;
    for (unsigned device = 0; device < 2; ++device)
        for (unsigned port = 1; port <= 2; ++port)
            places.push_back(std::make_unique<Place>(device, port, gid_index));
    unsigned seed = 0;
    for (const auto& from : places) {
        for (const auto& to : places) {
            ASSERT_NO_FATAL_FAILURE(talk(*from, *to, ++seed)) << seed;
            ASSERT_NO_FATAL_FAILURE(tell(*from, *to)) << seed;
        }
    }
}

TEST_F(SettingsTest, SpeedOfAPortIsTheRateThatFitsTheModel) {
    const std::pair<const char*, int> rates[] = {{"12.5", 32}, {"25", 64}, {"40", 128}};
    for (const auto& [bandwidth, speed] : rates) {
        set("MODEL", std::string("bandwidth=") + bandwidth);
        alone([expected = speed] {
            const Hca hca;
            EXPECT_EQ(hca.port_attr().active_width, 2);
            EXPECT_EQ(hca.port_attr().active_speed, expected);
        });
    }
}

TEST_F(SettingsTest, DevicesAndPortsAllReachEachOther) {
    set("DEVICES", "2");
    set("PORTS", "2");
    alone([] {
        EXPECT_EQ(device_count(), 2);
        EXPECT_EQ(Hca().attr().phys_port_cnt, 2);
        EXPECT_EQ(Hca().port_attr().link_layer, IBV_LINK_LAYER_INFINIBAND);
        everybody_talks(0);
    });
}

TEST_F(SettingsTest, EthernetIsAddressedByEitherGid) {
    set("DEVICES", "2");
    set("PORTS", "2");
    set("LINK_LAYER", "ethernet");
    alone([] {
        const Hca hca;
        EXPECT_EQ(hca.port_attr().link_layer, IBV_LINK_LAYER_ETHERNET);
        EXPECT_EQ(hca.port_attr().gid_tbl_len, 3);
        EXPECT_EQ(hca.unset_gid_index(), 2);
        EXPECT_EQ(hca.port_attr().lid, 0);
        constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
        ibv_gid gid;
        ASSERT_EQ(ibv_query_gid(hca.get(), 1, 1, &gid), 0);
        EXPECT_EQ(std::memcmp(gid.raw, kMapped.data(), kMapped.size()), 0);
        everybody_talks(0);
        everybody_talks(1);
    });
}

TEST_F(SettingsTest, LaterProcessesFollowTheFirst) {
    set("MODEL", "latency=30ms");
    Team team;
    const int first = team.spawn([](Link& link) {
        set("DEVICES", "3");
        set("PORTS", "2");
        set("LINK_LAYER", "ethernet");
        Hca before;
        link.send();
        Side side(link, {}, 4096);
        link.receive();
        EXPECT_EQ(side.mem.word(0), 1u);
    });
    const int second = team.spawn([](Link& link) {
        set("DEVICES", "1");
        set("MODEL", "latency=1us");
        set("EXECUTOR", "thread");  // each process may choose its executor
        link.receive();
        EXPECT_EQ(device_count(), 3);
        EXPECT_EQ(Hca().attr().phys_port_cnt, 2);
        Side side(link, {}, 4096);
        EXPECT_EQ(side.hca.port_attr().link_layer, IBV_LINK_LAYER_ETHERNET);
        side.mem.word(0) = 1;
        const Stopwatch watch;
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(side.mem.sge(0, 8))
                      .remote(side.window.addr, side.window.rkey)
                      .post(side.end.qp),
                  0);
        ASSERT_TRUE(next_are(side.end.send_cq, {1}));
        EXPECT_GE(watch.elapsed().count(), 30);
        const std::string json = status();
        EXPECT_NE(json.find("\"executor\": \"inline\""), json.npos);
        EXPECT_NE(json.find("\"executor\": \"thread\""), json.npos);
        link.send();
    });
    team[first].receive();
    team[second].send();
    introduce(team, first, second);
    team[second].receive();
    team[first].send();
    team.finish();
}

TEST_F(SettingsTest, FabricsOfOtherNamesAreApart) {
    Team team;
    auto role = [](Link& link, const char* name) {
        set("FABRIC", std::string(std::getenv("SOFTHCA_FABRIC")) + name);
        Hca hca;
        Pd pd = hca.make_pd();
        Endpoint end(hca, pd.get());
        link.send(as_peer(hca, end.qp.get(), {}));
        const Peer peer = link.receive<Peer>();
        bring_up(hca, end.qp.get(), quick(), peer);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).post(end.qp), 0);
        EXPECT_TRUE(next_are(end.send_cq, {1}, IBV_WC_RETRY_EXC_ERR)) << "nobody is there";
        link.send();
        link.receive();
    };
    const int one = team.spawn([&](Link& link) { role(link, "-a"); });
    const int two = team.spawn([&](Link& link) { role(link, "-b"); });
    exchange<Peer>(team[one], team[two]);
    exchange<char>(team[one], team[two]);
    team.finish();
    for (const char* name : {"-a", "-b"})
        command(std::string("clean --fabric ") + std::getenv("SOFTHCA_FABRIC") + name);
}

TEST_F(SettingsTest, WrongOneMakesNoDevice) {
    Team team;
    for (const char* setting : {"DEVICES", "LINK_LAYER", "MODEL", "FAULTS", "SHARED"}) {
        team.spawn([setting](Link&) {
            set(setting, "nonsense");
            EXPECT_EQ(device_count(), 0) << setting;
        });
    }
    team.finish();
}

}  // namespace
}  // namespace conformance::softhca
