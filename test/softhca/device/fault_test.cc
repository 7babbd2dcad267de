// SPDX-License-Identifier: BSD-3-Clause
// Faults of registration, of queue pairs, of completions and of receives.
#include <cerrno>
#include <functional>
#include <initializer_list>
#include <vector>

#include "fabric.h"

namespace conformance::softhca {
namespace {

class FaultTest : public FabricTest {};

SendWr write(const Pair& pair, uint64_t id, std::size_t length = 64) {
    SendWr wr(IBV_WR_RDMA_WRITE, id);
    wr.sge(pair.a_mem.sge(0, length)).remote(pair.b_mem);
    return wr;
}

SendWr send(const Pair& pair, uint64_t id) {
    SendWr wr(IBV_WR_SEND, id);
    wr.sge(pair.a_mem.sge(0, 64));
    return wr;
}

void reconnect(const Hca& hca, const Pair& pair) {
    apply_all(pair.a.qp.get(), {to_state(IBV_QPS_RESET)});
    apply_all(pair.b.qp.get(), {to_state(IBV_QPS_RESET)});
    connect(hca, pair.a.qp, pair.b.qp, pair.a.spec);
}

TEST_F(FaultTest, OnlyTheNthRegistrationFails) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Region memory(pd.get(), 4096);
        std::vector<Mr> regions;
        auto registers = [&] {
            errno = 0;
            Mr mr(ibv_reg_mr(pd.get(), memory.data(), 4096, kAllAccess));
            const bool done = mr != nullptr;
            EXPECT_EQ(errno, done ? 0 : ENOMEM);
            regions.push_back(std::move(mr));
            return done;
        };
        for (unsigned n : {1u, 3u}) {
            inject("reg-fail=" + std::to_string(n));
            for (unsigned i = 1; i <= 5; ++i) EXPECT_EQ(registers(), i != n) << i << " of " << n;
            EXPECT_EQ(faults(), "none");
        }
        inject("reg-fail=2");
        inject("reg-fail=0");
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(registers());
        inject("reg-fail=1");
        EXPECT_EQ(ibv_rereg_mr(memory.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                               IBV_ACCESS_LOCAL_WRITE),
                  IBV_REREG_MR_ERR_CMD);
        EXPECT_EQ(errno, ENOMEM);
    });
}

TEST_F(FaultTest, OnlyTheNthCreationFails) {
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Cq cq = hca.make_cq(16);
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq.get();
        init.qp_type = IBV_QPT_RC;
        init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
        ibv_srq_init_attr queue{.srq_context = nullptr, .attr = {.max_wr = 1, .max_sge = 1}};
        ibv_ah_attr path = hca.path_to(hca.address());
        const std::function<bool()> creations[] = {
            [&] { return Qp(ibv_create_qp(pd.get(), &init)) != nullptr; },
            [&] { return Srq(ibv_create_srq(pd.get(), &queue)) != nullptr; },
            [&] { return Cq(ibv_create_cq(hca.get(), 1, nullptr, nullptr, 0)) != nullptr; },
            [&] { return Ah(ibv_create_ah(pd.get(), &path)) != nullptr; },
        };
        for (size_t n = 1; n <= std::size(creations); ++n) {
            inject("create-fail=" + std::to_string(n));
            for (size_t i = 1; i <= std::size(creations); ++i) {
                errno = 0;
                EXPECT_EQ(creations[i - 1](), i != n) << i << " of " << n;
                EXPECT_EQ(errno, i != n ? 0 : ENOMEM);
            }
            EXPECT_EQ(faults(), "none");
        }
    });
}

TEST_F(FaultTest, PostThatFailsQueuesNothing) {
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Pair pair(hca, pd.get());
        ibv_srq_init_attr queue{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1}};
        const Srq srq(ibv_create_srq(pd.get(), &queue));
        inject("post-fail=1");
        EXPECT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 64)).post(srq), ENOMEM);
        inject("post-fail=1");
        EXPECT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 64)).post(pair.b.qp), ENOMEM);
        EXPECT_EQ(RecvWr(2).sge(pair.b_mem.sge(0, 64)).post(pair.b.qp), 0);
        inject("post-fail=2");
        EXPECT_EQ(send(pair, 3).post(pair.a.qp), 0);
        EXPECT_EQ(send(pair, 4).post(pair.a.qp), ENOMEM);
        EXPECT_TRUE(next_are(pair.a.send_cq, {3}));
        EXPECT_TRUE(next_are(pair.b.recv_cq, {2}));
        EXPECT_EQ(faults(), "none");
        EXPECT_TRUE(quiet(pair.a.send_cq));
    });
}

TEST_F(FaultTest, RegistrationsOfAllProcessesCount) {
    Team team;
    auto role = [](Link& link) {
        Hca hca;
        Pd pd = hca.make_pd();
        std::vector<uint8_t> memory(100);
        link.send();
        for (int i = 0; i < 2; ++i) {
            link.receive();
            Mr mr(ibv_reg_mr(pd.get(), memory.data(), 100, int{IBV_ACCESS_LOCAL_WRITE}));
            link.send(mr != nullptr);
        }
    };
    const int one = team.spawn(role);
    const int two = team.spawn(role);
    for (int i : {one, two}) team[i].receive();
    inject("reg-fail=3");
    std::vector<bool> done;
    for (int i : {one, two, one, two}) {
        team[i].send();
        done.push_back(team[i].receive<bool>());
    }
    EXPECT_EQ(done, (std::vector<bool>{true, true, false, true}));
    team.finish();
}

TEST_F(FaultTest, OnlyTheDroppedQueuePairGetsNoAnswer) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair one(hca, pd.get(), quick());
        Pair two(hca, pd.get(), quick());
        inject("drop-qp=" + std::to_string(one.a.qp->qp_num));
        const Stopwatch watch;
        one.a_mem.fill(1);
        ASSERT_EQ(write(one, 1).post(one.a.qp), 0);
        for (uint64_t i = 0; i < 100; ++i) {
            ASSERT_EQ(write(two, i).post(two.a.qp), 0);
            ASSERT_TRUE(next_are(two.a.send_cq, {i}));
        }
        EXPECT_TRUE(next_are(one.a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
        EXPECT_GE(watch.elapsed().count(), 12) << "two retries, 4.19 ms each";
        EXPECT_EQ(state_of(one.a.qp), IBV_QPS_ERR);
        EXPECT_EQ(state_of(one.b.qp), IBV_QPS_RTS) << "nothing has come in there";
        EXPECT_TRUE(one.b_mem.is_all(0, 0, 64));
        // The fault lasts until it is withdrawn.
        reconnect(hca, one);
        ASSERT_EQ(write(one, 2).post(one.a.qp), 0);
        EXPECT_TRUE(next_are(one.a.send_cq, {2}, IBV_WC_RETRY_EXC_ERR));
        inject("drop-qp=none");
        reconnect(hca, one);
        ASSERT_EQ(write(one, 3).post(one.a.qp), 0);
        EXPECT_TRUE(next_are(one.a.send_cq, {3}));
        EXPECT_TRUE(one.b_mem.holds(1, 0, 64));
    });
}

TEST_F(FaultTest, AnyDropsTheQueuePairUsedNext) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair one(hca, pd.get(), quick());
        Pair two(hca, pd.get(), quick());
        inject("drop-qp=any");
        ASSERT_EQ(write(two, 1).post(two.a.qp), 0);
        ASSERT_EQ(write(one, 2).post(one.a.qp), 0);
        EXPECT_TRUE(next_are(two.a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
        EXPECT_TRUE(next_are(one.a.send_cq, {2}));
        EXPECT_EQ(faults(), "drop-qp=" + std::to_string(two.a.qp->qp_num));
    });
}

TEST_F(FaultTest, CompletionsAndEventsAreDelayed) {
    alone([] {
        constexpr milliseconds kDelay{40};
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        EventQueue queue(hca);
        Qp a = make_qp(pd.get(), {}, queue.cq.get(), queue.cq.get());
        Qp b = make_qp(pd.get(), {}, pair.b.send_cq.get(), pair.b.recv_cq.get());
        connect(hca, a, b);
        inject("delay-completions=40ms");
        const Stopwatch watch;
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        ASSERT_EQ(send(pair, 2).post(pair.a.qp), 0);
        ASSERT_EQ(write(pair, 3).post(a), 0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
        EXPECT_GE(watch.elapsed(), kDelay) << "receive";
        ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
        EXPECT_GE(watch.elapsed(), kDelay) << "send";

        const Stopwatch again;
        ASSERT_EQ(write(pair, 4).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {4}));
        EXPECT_GE(again.elapsed(), kDelay) << "write";

        EXPECT_EQ(wait_cq_event(queue.channel.get()), queue.cq.get());
        ASSERT_TRUE(next_are(queue.cq, {3}));
        ASSERT_EQ(ibv_req_notify_cq(queue.cq.get(), 0), 0);
        const Stopwatch third;
        ASSERT_EQ(write(pair, 5).post(a), 0);
        wait_cq_event(queue.channel.get());
        EXPECT_GE(third.elapsed(), kDelay) << "event";
        ibv_wc wc;
        EXPECT_EQ(ibv_poll_cq(queue.cq.get(), 1, &wc), 1) << "an event means a completion";
    });
}

TEST_F(FaultTest, CompletionsKeepTheirOrderWhenTheDelayChanges) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        uint64_t id = 0;
        for (const char* delay : {"60ms", "1ms", "0", "20ms", "0"}) {
            inject(std::string("delay-completions=") + delay);
            for (int i = 0; i < 3; ++i, ++id) {
                ASSERT_EQ(RecvWr(id).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
                ASSERT_EQ(send(pair, id).post(pair.a.qp), 0);
            }
        }
        std::vector<uint64_t> ids;
        for (uint64_t i = 0; i < id; ++i) ids.push_back(i);
        EXPECT_TRUE(next_are(pair.a.send_cq, ids));
        EXPECT_TRUE(next_are(pair.b.recv_cq, ids));
    });
}

TEST_F(FaultTest, ReceiverNotReadyForAWhileIsOvercome) {
    alone([] {
        QpSpec spec;
        spec.rnr_timer = 14;  // 1.28 ms
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), spec);
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        inject("rnr=20");
        const Stopwatch watch;
        ASSERT_EQ(send(pair, 1).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        EXPECT_GE(watch.elapsed().count(), 25) << "20 times 1.28 ms";
        ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
        EXPECT_EQ(faults(), "none");
        EXPECT_EQ(sum(status(), "rnr_naks"), 20u);
    });
}

TEST_F(FaultTest, ReceiverNotReadyUsesUpTheRetries) {
    alone([] {
        QpSpec spec;
        spec.rnr_retry = 3;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), spec);
        for (uint64_t i = 0; i < 2; ++i)
            ASSERT_EQ(RecvWr(i).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        inject("rnr=3");
        ASSERT_EQ(send(pair, 0).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {0}));
        ASSERT_TRUE(next_are(pair.b.recv_cq, {0}));
        // A plain RDMA write needs no receive.
        inject("rnr=4");
        ASSERT_EQ(write(pair, 1).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        ASSERT_EQ(send(pair, 2).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_RNR_RETRY_EXC_ERR));
        EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_ERR);
        EXPECT_TRUE(quiet(pair.b.recv_cq)) << "the receive is still there";
        EXPECT_EQ(faults(), "none");
    });
}

TEST_F(FaultTest, ReceiverNotReadyDoesNotKeepReceivesFromBeingFlushed) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        for (uint64_t i = 0; i < 5; ++i)
            ASSERT_EQ(RecvWr(i).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        inject("rnr=3");
        apply_all(pair.b.qp.get(), {to_state(IBV_QPS_ERR)});
        EXPECT_TRUE(next_are(pair.b.recv_cq, {0, 1, 2, 3, 4}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_EQ(faults(), "rnr=3") << "no message came";
    });
}

TEST_F(FaultTest, ReceiverNotReadyLosesUnreliableMessages) {
    alone([] {
        QpSpec spec;
        spec.type = IBV_QPT_UC;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), spec);
        ASSERT_EQ(RecvWr(7).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        inject("rnr=2");
        for (uint64_t i = 1; i <= 3; ++i)
            ASSERT_EQ(SendWr(IBV_WR_SEND_WITH_IMM, i).imm(static_cast<uint32_t>(i)).post(pair.a.qp),
                      0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1, 2, 3}));
        const ibv_wc wc = poll_one(pair.b.recv_cq);
        EXPECT_TRUE(is_done(wc, 7));
        EXPECT_EQ(be32toh(wc.imm_data), 3u);
    });
}

// A write of one byte, to the same place.
SendWr byte(const Pair& pair, uint64_t id, int value) {
    *reinterpret_cast<uint8_t*>(pair.a_mem.data() + id) = static_cast<uint8_t>(value);
    SendWr wr(IBV_WR_RDMA_WRITE, id);
    wr.sge(pair.a_mem.sge(id, 1)).remote(pair.b_mem);
    return wr;
}

// Posts them by one call, so that each finds the one behind it.
int post_together(const Pair& pair,
                  std::initializer_list<std::reference_wrapper<SendWr>> requests) {
    for (auto each = requests.begin(); each + 1 != requests.end(); ++each)
        each->get().raw().next = &(each + 1)->get().raw();
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(pair.a.qp.get(), &requests.begin()->get().raw(), &bad);
}

TEST_F(FaultTest, WritesAreSwapped) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        inject("swap-writes");
        EXPECT_EQ(ibv_query_qp_data_in_order(pair.a.qp.get(), IBV_WR_RDMA_WRITE, 0), 1);
        const auto* const place = reinterpret_cast<const volatile uint8_t*>(pair.b_mem.data());
        SendWr first = byte(pair, 1, 11), second = byte(pair, 2, 22);
        ASSERT_EQ(post_together(pair, {first, second}), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1, 2})) << "completions keep their order";
        EXPECT_EQ(*place, 11);
        ASSERT_EQ(byte(pair, 3, 33).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {3})) << "there is no other";
        EXPECT_EQ(*place, 33);
        // What is no write comes behind those before it.
        ASSERT_EQ(RecvWr(0).sge(pair.b_mem.sge(64, 64)).post(pair.b.qp), 0);
        SendWr third = byte(pair, 4, 44), fourth = byte(pair, 5, 55), message = send(pair, 6);
        SendWr last = byte(pair, 7, 77);
        ASSERT_EQ(post_together(pair, {third, fourth, message, last}), 0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {0}));
        EXPECT_NE(*place, 55) << "all before the send have come";
        ASSERT_TRUE(next_are(pair.a.send_cq, {4, 5, 6, 7}));
        EXPECT_EQ(*place, 77);
    });
}

TEST_F(FaultTest, AWriteIsPlacedTwice) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        auto* const place = reinterpret_cast<volatile uint8_t*>(pair.b_mem.data());
        inject("replay-write=2");
        for (int i = 1; i <= 3; ++i) {
            *place = 0;
            ASSERT_EQ(byte(pair, 1, i).post(pair.a.qp), 0);
            ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
            EXPECT_EQ(*place, i == 3 ? 2 : i) << "the second comes again behind the third";
        }
        EXPECT_EQ(faults(), "none");
    });
}

TEST_F(FaultTest, EnvironmentSetsThemFromTheStart) {
    set("FAULTS", "reg-fail=2,delay-completions=30ms");
    Team team;
    const int first = team.spawn([](Link& link) {
        Hca hca;
        Pd pd = hca.make_pd();
        Region one(pd.get(), 4096);
        EXPECT_FALSE(Mr(ibv_reg_mr(pd.get(), one.data(), 4096, kAllAccess)));
        Pair pair(hca, pd.get());
        const Stopwatch watch;
        ASSERT_EQ(write(pair, 1).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        EXPECT_GE(watch.elapsed().count(), 30);
        link.send();
        link.receive();
    });
    const int second = team.spawn([](Link& link) {
        set("FAULTS", "rnr=5,out-of-order");
        link.receive();
        Hca hca;
        EXPECT_EQ(faults(), "delay-completions=30ms") << "those of the first process hold";
        link.send();
    });
    team[first].receive();
    team[second].send();
    team[second].receive();
    team[first].send();
    team.finish();
}

TEST_F(FaultTest, NoneEndsThemAll) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        inject("reg-fail=1,drop-qp=any,rnr=1000000,port-down,segment=1:1s,out-of-order,stale-cq");
        inject("swap-writes,replay-write=1");
        inject("delay-completions=100s");
        inject("none");
        EXPECT_EQ(faults(), "none");
        Region memory(pd.get(), 4096);
        ibv_port_attr port;
        ASSERT_EQ(ibv_query_port(hca.get(), hca.port(), &port), 0);
        EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
        EXPECT_EQ(ibv_query_qp_data_in_order(pair.a.qp.get(), IBV_WR_RDMA_WRITE, 0), 1);
        pair.a_mem.fill(3);
        ASSERT_EQ(write(pair, 1, pair.a_mem.size()).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        EXPECT_TRUE(pair.b_mem.holds(3, 0, pair.b_mem.size()));
        ASSERT_EQ(RecvWr(2).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        ASSERT_EQ(send(pair, 3).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.b.recv_cq, {2}));
        EXPECT_TRUE(next_are(pair.a.send_cq, {3}));
        EXPECT_EQ(sum(status(), "rnr_naks"), 0u);
        EXPECT_EQ(sum(status(), "retransmissions"), 0u);
    });
}

}  // namespace
}  // namespace conformance::softhca
