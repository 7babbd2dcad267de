// SPDX-License-Identifier: BSD-3-Clause
// Traffic between processes.
#include <sched.h>

#include <atomic>

#include "side.h"

namespace conformance {
namespace remote_test {

class RemoteTest : public testing::TestWithParam<ibv_qp_type> {
  protected:
    void SetUp() override {
        const Hca hca;
        const Pd pd = hca.make_pd();
        if (!has_transport(hca, pd.get(), GetParam()))
            GTEST_SKIP() << "no " << transport_name(GetParam());
    }

    static QpSpec spec() {
        QpSpec wanted;
        wanted.type = GetParam();
        return wanted;
    }
};

constexpr std::size_t kSizes[] = {0, 1, 63, 1024, 4097, 65536, 1 << 20};

TEST_P(RemoteTest, MessagesOfEverySizeArriveWhole) {
    Team team;
    const int sender = team.spawn([](Link& link) {
        Side side(link, spec(), 1 << 20);
        for (std::size_t size : kSizes) {
            side.mem.fill(static_cast<unsigned>(size), 0, size);
            link.receive();  // until the receive is posted
            SendWr wr(IBV_WR_SEND, size);
            if (size > 0) wr.sge(side.mem.sge(0, size));
            ASSERT_EQ(wr.post(side.end.qp), 0);
            ASSERT_TRUE(next_are(side.end.send_cq, {size}));
        }
        link.receive();
    });
    const int receiver = team.spawn([](Link& link) {
        Side side(link, spec(), 1 << 20);
        for (std::size_t size : kSizes) {
            ASSERT_EQ(RecvWr(size).sge(side.mem.sge()).post(side.end.qp), 0);
            link.send();
            const ibv_wc wc = poll_one(side.end.recv_cq);
            ASSERT_TRUE(is_done(wc, size));
            EXPECT_EQ(wc.byte_len, size);
            EXPECT_TRUE(side.mem.holds(static_cast<unsigned>(size), 0, size)) << size;
        }
        link.send();
    });
    introduce(team, sender, receiver);
    for (std::size_t i = 0; i < std::size(kSizes) + 1; ++i) {
        team[receiver].receive();
        team[sender].send();
    }
    team.finish();
}

TEST_P(RemoteTest, WritesAreSeenByPollingMemory) {
    constexpr uint64_t kRounds = 200;
    Team team;
    auto play = [](Link& link, bool first) {
        Side side(link, spec(), 8192);
        auto* flag = reinterpret_cast<std::atomic<uint64_t>*>(side.mem.data());
        auto await = [flag](uint64_t round) {
            const auto end = Clock::now() + deadline();
            while (flag->load(std::memory_order_acquire) != round) {
                if (Clock::now() > end) fail("the other side did not write");
                sched_yield();
            }
        };
        for (uint64_t round = 1; round <= kRounds; ++round) {
            if (!first) await(round);
            side.mem.word(512) = round;
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, round)
                          .sge(side.mem.sge(4096, 8))
                          .remote(side.window.addr, side.window.rkey)
                          .post(side.end.qp),
                      0);
            ASSERT_TRUE(next_are(side.end.send_cq, {round}));
            if (first) await(round);
        }
        link.send();
        link.receive();
    };
    const int one = team.spawn([&](Link& link) { play(link, true); });
    const int two = team.spawn([&](Link& link) { play(link, false); });
    introduce(team, one, two);
    exchange<char>(team[one], team[two]);
    team.finish();
}

TEST_P(RemoteTest, SleepingReceiverIsWoken) {
    constexpr uint64_t kRounds = 50;
    Team team;
    const int receiver = team.spawn([](Link& link) {
        Hca hca;
        Pd pd = hca.make_pd();
        Channel channel = hca.make_channel();
        Cq cq = hca.make_cq(64, channel.get());
        Qp qp = make_qp(pd.get(), spec(), cq.get(), cq.get());
        apply_all(qp.get(), {to_init(hca, spec())});
        for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(RecvWr(i).post(qp), 0);
        ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
        link.send(as_peer(hca, qp.get(), spec()));
        const Peer peer = link.receive<Peer>();
        apply_all(qp.get(), {to_rtr(hca, spec(), peer), to_rts(spec())});
        link.send(Window{});
        link.receive<Window>();
        for (uint64_t i = 0; i < kRounds; ++i) {
            wait_cq_event(channel.get());
            ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
            ASSERT_TRUE(next_are(cq, {i}));
            ASSERT_EQ(RecvWr(i + 2).post(qp), 0);
            link.send();
        }
    });
    const int sender = team.spawn([](Link& link) {
        Side side(link, spec(), 4096);
        for (uint64_t i = 0; i < kRounds; ++i) {
            ASSERT_EQ(SendWr(IBV_WR_SEND, i).sge(side.mem.sge(0, 0)).post(side.end.qp), 0);
            ASSERT_TRUE(next_are(side.end.send_cq, {i}));
            link.receive();
        }
    });
    introduce(team, receiver, sender);
    for (uint64_t i = 0; i < kRounds; ++i) {
        team[receiver].receive();
        team[sender].send();
    }
    team.finish();
}

INSTANTIATE_TEST_SUITE_P(Connected, RemoteTest, testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         transport_case);

TEST(RemoteRcTest, OneSidedOperationsReachASleepingProcess) {
    // The target makes no verbs call while its memory is read and written.
    Team team;
    const int target = team.spawn([](Link& link) {
        Side side(link, {}, 1 << 20);
        side.mem.fill(7, 0, 300000);
        link.send();
        link.receive();
        EXPECT_TRUE(side.mem.holds(8, 400000, 300000));
        EXPECT_EQ(side.mem.word(100000), 10u);
    });
    const int actor = team.spawn([](Link& link) {
        Side side(link, {}, 1 << 20);
        link.receive();
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 1)
                      .sge(side.mem.sge(0, 300000))
                      .remote(side.window.addr, side.window.rkey)
                      .post(side.end.qp),
                  0);
        ASSERT_TRUE(next_are(side.end.send_cq, {1}));
        EXPECT_TRUE(side.mem.holds(7, 0, 300000));
        side.mem.fill(8, 0, 300000);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2)
                      .sge(side.mem.sge(0, 300000))
                      .remote(side.window.addr + 400000, side.window.rkey)
                      .post(side.end.qp),
                  0);
        ASSERT_TRUE(next_are(side.end.send_cq, {2}));
        for (uint64_t i = 0; i < 10 && side.hca.has_atomics(); ++i) {
            ASSERT_EQ(SendWr(IBV_WR_ATOMIC_FETCH_AND_ADD, i)
                          .sge(side.mem.sge(0, 8))
                          .atomic(side.window.addr + 800000, side.window.rkey, 1)
                          .post(side.end.qp),
                      0);
            ASSERT_TRUE(next_are(side.end.send_cq, {i}));
            EXPECT_EQ(side.mem.word(0), i);
        }
        if (!side.hca.has_atomics()) {
            side.mem.word(0) = 10;
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 3)
                          .sge(side.mem.sge(0, 8))
                          .remote(side.window.addr + 800000, side.window.rkey)
                          .post(side.end.qp),
                      0);
            ASSERT_TRUE(next_are(side.end.send_cq, {3}));
        }
        link.send();
    });
    introduce(team, target, actor);
    team[target].receive();
    team[actor].send();
    team[actor].receive();
    team[target].send();
    team.finish();
}

TEST(RemoteUdTest, DatagramsFindTheirProcess) {
    static constexpr uint64_t kCount = 100;
    QpSpec spec;
    spec.type = IBV_QPT_UD;
    Team team;
    const int receiver = team.spawn([spec](Link& link) {
        Hca hca;
        Pd pd = hca.make_pd();
        Region mem(pd.get(), 4096 * 16);
        Endpoint end(hca, pd.get(), spec);
        bring_up(hca, end.qp.get(), spec, {});
        ASSERT_EQ(RecvWr(0).sge(mem.sge(0, 4096)).post(end.qp), 0);
        link.send(as_peer(hca, end.qp.get(), spec));
        for (uint64_t i = 0; i < kCount; ++i) {
            const ibv_wc wc = poll_one(end.recv_cq);
            ASSERT_TRUE(is_done(wc, i));
            EXPECT_EQ(wc.byte_len, 40u + 256u);
            EXPECT_TRUE(mem.holds(static_cast<unsigned>(i), 40, 256));
            ASSERT_EQ(RecvWr(i + 1).sge(mem.sge(0, 4096)).post(end.qp), 0);
            link.send();
        }
    });
    const int sender = team.spawn([spec](Link& link) {
        Hca hca;
        Pd pd = hca.make_pd();
        Region mem(pd.get(), 4096);
        Endpoint end(hca, pd.get(), spec);
        bring_up(hca, end.qp.get(), spec, {});
        const Peer peer = link.receive<Peer>();
        Ah ah = hca.make_ah(pd.get(), peer.address);
        for (uint64_t i = 0; i < kCount; ++i) {
            mem.fill(static_cast<unsigned>(i), 0, 256);
            ASSERT_EQ(SendWr(IBV_WR_SEND, i)
                          .sge(mem.sge(0, 256))
                          .to(ah.get(), peer.qpn, kQkey)
                          .post(end.qp),
                      0);
            ASSERT_TRUE(next_are(end.send_cq, {i}));
            link.receive();
        }
    });
    team[sender].send(team[receiver].receive<Peer>());
    for (uint64_t i = 0; i < kCount; ++i) {
        team[receiver].receive();
        team[sender].send();
    }
    team.finish();
}

}  // namespace remote_test
}  // namespace conformance
