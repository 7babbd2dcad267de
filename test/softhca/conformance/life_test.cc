// SPDX-License-Identifier: BSD-3-Clause
// What surviving processes see when a process dies.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "side.h"

namespace conformance {
namespace {

enum class Traffic { kSend, kWrite, kRead };

// A work request of 64 KB for the kind of traffic.
SendWr piece(const Side& side, Traffic traffic, uint64_t id) {
    constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
    SendWr wr(kOpcodes[static_cast<int>(traffic)], id);
    wr.sge(side.mem.sge(0, 1 << 16)).remote(side.window.addr, side.window.rkey);
    return wr;
}

QpSpec mortal() {
    QpSpec spec;
    spec.retries = 2;  // each 67 ms, so that a slow peer is not taken for a dead one
    return spec;
}

// Keeps several work requests outstanding until one fails; the others must then be flushed in
// order.
void stream_until_death(Link& link, const Side& side, Traffic traffic) {
    constexpr uint64_t kWindow = 8;
    uint64_t posted = 0;
    uint64_t done = 0;
    const auto end = Clock::now() + 2 * deadline();
    for (;;) {
        if (Clock::now() > end) fail("the death of the peer was not noticed");
        while (posted < done + kWindow) {
            ASSERT_EQ(piece(side, traffic, posted).post(side.end.qp), 0);
            ++posted;
        }
        const ibv_wc wc = poll_one(side.end.send_cq);
        ASSERT_EQ(wc.wr_id, done);
        ++done;
        if (done == 3 * kWindow) link.send();  // the traffic is flowing
        if (wc.status == IBV_WC_SUCCESS) continue;
        EXPECT_TRUE(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_RNR_RETRY_EXC_ERR)
            << ibv_wc_status_str(wc.status);
        break;
    }
    for (; done < posted; ++done)
        EXPECT_TRUE(next_are(side.end.send_cq, {done}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(state_of(side.end.qp), IBV_QPS_ERR);
}

// Receives messages without end. One-sided traffic needs only that the process lives.
void serve(const Side& side) {
    for (uint64_t i = 0; i < 32; ++i)
        ASSERT_EQ(RecvWr(i).sge(side.mem.sge(0, 1 << 16)).post(side.end.qp), 0);
    for (;;) {
        ibv_wc wc;
        if (ibv_poll_cq(side.end.recv_cq.get(), 1, &wc) == 1) {
            ASSERT_EQ(RecvWr(wc.wr_id).sge(side.mem.sge(0, 1 << 16)).post(side.end.qp), 0);
        } else
            sched_yield();
    }
}

class DeathTest : public testing::TestWithParam<Traffic> {};

TEST_P(DeathTest, KilledPeerIsNoticedAndOtherConnectionsGoOn) {
    const Traffic traffic = GetParam();
    Team team;
    const int survivor = team.spawn([traffic](Link& link) {
        Side doomed(link, mortal(), 1 << 16);
        Side other(link, {}, 1 << 16);
        stream_until_death(link, doomed, traffic);
        // The other connection still works.
        for (uint64_t i = 0; i < 10; ++i) {
            ASSERT_EQ(piece(other, Traffic::kSend, i).post(other.end.qp), 0);
            ASSERT_TRUE(next_are(other.end.send_cq, {i}));
        }
        link.send();
    });
    const int victim = team.spawn([](Link& link) { serve(Side(link, {}, 1 << 16)); });
    const int bystander = team.spawn([](Link& link) {
        Side side(link, {}, 1 << 16);
        for (uint64_t i = 0; i < 10; ++i)
            ASSERT_EQ(RecvWr(i).sge(side.mem.sge()).post(side.end.qp), 0);
        for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(next_are(side.end.recv_cq, {i}));
        link.send();
        link.receive();
    });
    introduce(team, survivor, victim);
    introduce(team, survivor, bystander);
    team[survivor].receive();
    team.kill(victim);
    team[survivor].receive();
    team[bystander].receive();
    team[bystander].send();
    team.finish();
}

const char* name(Traffic traffic) {
    constexpr const char* kNames[] = {"Send", "Write", "Read"};
    return kNames[static_cast<int>(traffic)];
}

INSTANTIATE_TEST_SUITE_P(Operations, DeathTest,
                         testing::Values(Traffic::kSend, Traffic::kWrite, Traffic::kRead),
                         [](const auto& test) { return name(test.param); });

TEST(LifeTest, SleeperIsWokenWhenItsPeerDies) {
    Team team;
    const int sleeper = team.spawn([](Link& link) {
        Hca hca;
        Pd pd = hca.make_pd();
        Channel channel = hca.make_channel();
        Cq cq = hca.make_cq(16, channel.get());
        Qp qp = make_qp(pd.get(), mortal(), cq.get(), cq.get());
        link.send(as_peer(hca, qp.get(), mortal()));
        bring_up(hca, qp.get(), mortal(), link.receive<Peer>());
        link.send(Window{});
        link.receive<Window>();
        ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(qp), 0);  // has no receive
        link.send();
        wait_cq_event(channel.get());
        const ibv_wc wc = poll_one(cq);
        EXPECT_EQ(wc.wr_id, 1u);
        EXPECT_NE(wc.status, IBV_WC_SUCCESS);
        link.send();
    });
    const int victim = team.spawn([](Link& link) {
        Side side(link, {}, 4096);
        link.receive();
    });
    introduce(team, sleeper, victim);
    team[sleeper].receive();
    team.kill(victim);
    team[sleeper].receive();
    team.finish();
}

TEST(LifeTest, ExitWithoutCleaningUpIsADeathToo) {
    Team team;
    const int survivor = team.spawn([](Link& link) {
        Side side(link, mortal(), 1 << 16);
        link.receive();
        ASSERT_EQ(piece(side, Traffic::kWrite, 1).post(side.end.qp), 0);
        EXPECT_TRUE(next_are(side.end.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
    });
    const int leaver = team.spawn([](Link& link) {
        Side side(link, {}, 1 << 16);
        _exit(0);
    });
    introduce(team, survivor, leaver);
    team.kill(leaver);
    team[survivor].send();
    team.finish();
}

TEST(LifeTest, ReceiverOfADeadSenderIsLeftInPeace) {
    Team team;
    const int survivor = team.spawn([](Link& link) {
        Side side(link, mortal(), 4096);
        ASSERT_EQ(RecvWr(1).post(side.end.qp), 0);
        link.receive();
        EXPECT_TRUE(quiet(side.end.recv_cq)) << "only sending finds out";
        EXPECT_EQ(state_of(side.end.qp), IBV_QPS_RTS);
        link.send();
    });
    const int victim = team.spawn([](Link& link) {
        Side side(link, {}, 4096);
        link.receive();
    });
    introduce(team, survivor, victim);
    team.kill(victim);
    team[survivor].send();
    team[survivor].receive();
    team.finish();
}

// Starts a child that uses no verbs and exits by `leave`.
pid_t fork_idler(void (*leave)(int)) {
    const pid_t pid = fork();
    if (pid == 0) {
        usleep(20000);
        leave(0);
    }
    return pid;
}

TEST(LifeTest, ForkWithoutExecLeavesTheParentWorking) {
    constexpr uint64_t kRounds = 20;
    Team team;
    const int parent = team.spawn([](Link& link) {
        ASSERT_EQ(ibv_fork_init(), 0);
        Side side(link, {}, 1 << 16);
        std::vector<pid_t> children;
        for (uint64_t i = 0; i < kRounds; ++i) {
            if (i % 4 == 0) children.push_back(fork_idler(i % 8 ? std::_Exit : std::exit));
            // The device must send what the parent stores after the fork, and the parent must see
            // what the device receives.
            side.mem.fill(static_cast<unsigned>(i), 0, 20000);
            ASSERT_EQ(RecvWr(i).sge(side.mem.sge(30000, 20000)).post(side.end.qp), 0);
            ASSERT_EQ(SendWr(IBV_WR_SEND, i).sge(side.mem.sge(0, 20000)).post(side.end.qp), 0);
            ASSERT_TRUE(next_are(side.end.send_cq, {i}));
            ASSERT_TRUE(next_are(side.end.recv_cq, {i}));
            EXPECT_TRUE(side.mem.holds(static_cast<unsigned>(i), 30000, 20000)) << i;
        }
        for (pid_t child : children) {
            int status = -1;
            waitpid(child, &status, 0);
            EXPECT_EQ(status, 0);
        }
        // The same after the children have exited.
        ASSERT_EQ(SendWr(IBV_WR_SEND, 99).sge(side.mem.sge(0, 20000)).post(side.end.qp), 0);
        ASSERT_TRUE(next_are(side.end.send_cq, {99}));
        link.send();
        link.receive();
    });
    const int echo = team.spawn([](Link& link) {
        Side side(link, {}, 1 << 16);
        for (uint64_t i = 0; i <= kRounds; ++i) {
            ASSERT_EQ(RecvWr(i).sge(side.mem.sge(0, 20000)).post(side.end.qp), 0);
            ASSERT_TRUE(next_are(side.end.recv_cq, {i}));
            if (i == kRounds) break;
            ASSERT_EQ(SendWr(IBV_WR_SEND, i).sge(side.mem.sge(0, 20000)).post(side.end.qp), 0);
            ASSERT_TRUE(next_are(side.end.send_cq, {i}));
        }
        link.send();
        link.receive();
    });
    introduce(team, parent, echo);
    exchange<char>(team[parent], team[echo]);
    team.finish();
}

TEST(LifeTest, ManyProcessesComeAndGoAtOnce) {
    constexpr int kProcesses = 16;
    Team team;
    for (int i = 0; i < kProcesses; ++i) {
        team.spawn([i](Link&) {
            auto hca = std::make_unique<Hca>();
            Pd pd = hca->make_pd();
            Pair pair(*hca, pd.get());
            for (uint64_t id = 0; id < 20; ++id) {
                ASSERT_EQ(RecvWr(id).sge(pair.b_mem.sge(0, 100)).post(pair.b.qp), 0);
                pair.a_mem.fill(static_cast<unsigned>(id + i), 0, 100);
                ASSERT_EQ(SendWr(IBV_WR_SEND, id).sge(pair.a_mem.sge(0, 100)).post(pair.a.qp), 0);
                ASSERT_TRUE(next_are(pair.a.send_cq, {id}));
                ASSERT_TRUE(next_are(pair.b.recv_cq, {id}));
                ASSERT_TRUE(pair.b_mem.holds(static_cast<unsigned>(id + i), 0, 100));
            }
            if (i % 2 && !testing::Test::HasFailure()) _exit(0);  // without destroying objects
        });
    }
    team.finish();
    if (is_team_process()) return;
    Hca hca;
    Pd pd = hca.make_pd();
    Pair pair(hca, pd.get());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
}

}  // namespace
}  // namespace conformance
