// SPDX-License-Identifier: BSD-3-Clause
// The timing model: nothing becomes visible before its time. No test limits how late it becomes
// visible.
#include <algorithm>
#include <array>
#include <vector>

#include "fabric.h"

namespace conformance::softhca {
namespace model_test {

using std::chrono::microseconds;

constexpr milliseconds kLatency{20};
constexpr char kLatencyModel[] = "latency=20ms";

SendWr write(const Pair& pair, uint64_t id, std::size_t length = 8) {
    SendWr wr(IBV_WR_RDMA_WRITE, id);
    wr.sge(pair.a_mem.sge(0, length)).remote(pair.b_mem);
    return wr;
}

class ModelTest : public ExecutorTest {};

// The sender does not poll meanwhile: the device's thread places the bytes.
TEST_P(ModelTest, WriteIsNotSeenByAnotherProcessBeforeItsTime) {
    set("MODEL", kLatencyModel);
    Team team;
    const int target = team.spawn([](Link& link) {
        Side side(link, {}, 4096);
        link.send();
        ASSERT_TRUE(comes([&] { return look(side.mem.word(0)) != 0; }));
        link.send(Clock::now());
        link.receive();
    });
    const int actor = team.spawn([](Link& link) {
        Side side(link, {}, 4096);
        side.mem.word(0) = 1;
        link.receive();
        const auto start = Clock::now();
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(side.mem.sge(0, 8))
                      .remote(side.window.addr, side.window.rkey)
                      .post(side.end.qp),
                  0);
        link.send(start);
        link.receive();
        ASSERT_TRUE(next_are(side.end.send_cq, {1}));
        EXPECT_GE(Clock::now() - start, 2 * kLatency) << "the acknowledgement must come back";
    });
    introduce(team, target, actor);
    team[target].receive();
    team[actor].send();
    const auto seen = team[target].receive<Clock::time_point>();
    const auto posted = team[actor].receive<Clock::time_point>();
    EXPECT_GE(seen - posted, kLatency);
    team[actor].send();
    team[target].send();
    team.finish();
}

TEST_P(ModelTest, MessagesAreNotCompletedBeforeTheirTime) {
    set("MODEL", "latency=20ms,completion=10ms");
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM}) {
            Pair pair(hca, pd.get());
            ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
            const Stopwatch watch;
            SendWr wr(opcode, 2);
            ASSERT_EQ(wr.sge(pair.a_mem.sge(0, 8)).remote(pair.b_mem).post(pair.a.qp), 0);
            ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
            EXPECT_GE(watch.elapsed(), kLatency + milliseconds(10));
            ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
            EXPECT_GE(watch.elapsed(), 2 * kLatency + milliseconds(10));
        }
    });
}

TEST_P(ModelTest, UnreliableMessagesObeyItToo) {
    set("MODEL", kLatencyModel);
    alone([] {
        QpSpec spec;
        spec.type = IBV_QPT_UD;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), spec);
        Ah ah = hca.make_ah(pd.get(), hca.address());
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        const Stopwatch watch;
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2)
                      .sge(pair.a_mem.sge(0, 8))
                      .to(ah.get(), pair.b.qp->qp_num, kQkey)
                      .post(pair.a.qp),
                  0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
        EXPECT_GE(watch.elapsed(), kLatency);
        ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
    });
}

TEST_P(ModelTest, EventsDoNotComeBeforeTheirTime) {
    set("MODEL", kLatencyModel);
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Region memory(pd.get(), 4096);
        EventQueue sends(hca);
        EventQueue receives(hca);
        Qp a = make_qp(pd.get(), {}, sends.cq.get(), sends.cq.get());
        Qp b = make_qp(pd.get(), {}, receives.cq.get(), receives.cq.get());
        connect(hca, a, b);
        ASSERT_EQ(RecvWr(1).sge(memory.sge()).post(b), 0);
        const Stopwatch watch;
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(memory.sge(0, 8)).post(a), 0);
        wait_cq_event(receives.channel.get());
        EXPECT_GE(watch.elapsed(), kLatency);
        EXPECT_TRUE(next_are(receives.cq, {1}));
        wait_cq_event(sends.channel.get());
        EXPECT_GE(watch.elapsed(), 2 * kLatency);
        EXPECT_TRUE(next_are(sends.cq, {2}));
    });
}

// A new completion may become visible earlier than one that is already in the queue. A program that
// sleeps on the channel must be woken for each completion.
TEST_P(ModelTest, EveryCompletionHasItsEvent) {
    set("MODEL", kLatencyModel);
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Region memory(pd.get(), 4096);
        EventQueue queue(hca);
        Qp a = make_qp(pd.get(), {}, queue.cq.get(), queue.cq.get());
        Qp b = make_qp(pd.get(), {}, queue.cq.get(), queue.cq.get());
        connect(hca, a, b);
        for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(RecvWr(i).sge(memory.sge(0, 64)).post(b), 0);
        // Only the second message has a completion of its send.
        for (uint64_t i = 0; i < 3; ++i) {
            SendWr wr(IBV_WR_SEND, 10 + i);
            if (i != 1) wr.flags(0);
            ASSERT_EQ(wr.sge(memory.sge(0, 8)).post(a), 0);
        }
        int got = 0;
        while (got < 4) {
            ASSERT_TRUE(readable(queue.channel->fd, deadline() / 2)) << "after " << got << " of 4";
            wait_cq_event(queue.channel.get());
            ASSERT_EQ(ibv_req_notify_cq(queue.cq.get(), 0), 0);
            ibv_wc wc;
            while (ibv_poll_cq(queue.cq.get(), 1, &wc) == 1) {
                ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
                ++got;
            }
        }
    });
}

TEST_P(ModelTest, ReadsAndAtomicsTakeAReturnJourney) {
    set("MODEL", kLatencyModel);
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        pair.b_mem.word(0) = 5;
        uint64_t id = 0;
        for (const ibv_wr_opcode opcode :
             {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
            const bool atomic = opcode != IBV_WR_RDMA_READ;
            pair.a_mem.word(0) = 0;
            SendWr wr(opcode, ++id);
            wr.sge(pair.a_mem.sge(0, 8)).remote(pair.b_mem);
            if (atomic) wr.atomic(pair.b_mem.addr(), pair.b_mem.rkey(), 1);
            const Stopwatch watch;
            ASSERT_EQ(wr.post(pair.a.qp), 0);
            ASSERT_TRUE(comes([&] { return look(pair.a_mem.word(0)) != 0; }));
            EXPECT_GE(watch.elapsed(), 2 * kLatency) << opcode << ": data";
            ASSERT_TRUE(next_are(pair.a.send_cq, {id}));
            EXPECT_GE(watch.elapsed(), 2 * kLatency) << opcode << ": completion";
        }
    });
}

TEST_P(ModelTest, LongWriteArrivesAtTheBandwidth) {
    set("MODEL", "latency=10ms,bandwidth=0.1");
    alone([] {
        constexpr std::size_t kSize = 4 << 20;  // 42 ms at this bandwidth
        constexpr std::size_t kStep = kSize / 8;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), {}, kSize);
        std::fill_n(&pair.a_mem.word(0), kSize / 8, 1);
        const auto start = Clock::now();
        ASSERT_EQ(write(pair, 1, kSize).post(pair.a.qp), 0);
        for (std::size_t end = kStep; end <= kSize; end += kStep) {
            ASSERT_TRUE(comes([&] { return look(pair.b_mem.word(end / 8 - 1)) != 0; }));
            EXPECT_GE(Clock::now() - start, milliseconds(10) + microseconds(end / 100)) << end;
        }
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        EXPECT_GE(Clock::now() - start, milliseconds(20) + microseconds(kSize / 100));
    });
}

// As with packets, a process that watches the memory sees the first piece before half of the
// message has arrived.
TEST_P(ModelTest, LongWriteArrivesPieceByPiece) {
    set("MODEL", "latency=10ms,bandwidth=0.0002");
    alone([] {
        constexpr std::size_t kPiece = 4096;
        constexpr std::size_t kSize = 16 * kPiece;
        constexpr std::chrono::nanoseconds kTime{kPiece * 5000};  // for a piece: 20 ms
        Hca hca;
        Pd pd = hca.make_pd();
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM}) {
            Pair pair(hca, pd.get(), {}, kSize);
            std::fill_n(&pair.a_mem.word(0), kSize / 8, 1);
            ASSERT_EQ(RecvWr(2).post(pair.b.qp), 0);
            SendWr wr(opcode, 1);
            wr.sge(pair.a_mem.sge()).remote(pair.b_mem);
            const auto start = Clock::now();
            ASSERT_EQ(wr.post(pair.a.qp), 0);
            for (std::size_t end = kPiece; end <= kSize; end += kPiece) {
                const uint64_t& last = pair.b_mem.word(end / 8 - 1);
                ASSERT_TRUE(comes([&] { return look(last) != 0; }));
                const auto due = milliseconds(10) + kTime * (end / kPiece);
                EXPECT_GE(Clock::now() - start, due) << end << " bytes of " << opcode;
                if (end > kPiece) continue;
                EXPECT_LT(Clock::now() - start, due + 6 * kTime) << opcode;
            }
            ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        }
    });
}

TEST_P(ModelTest, MessagesBehindOneAnotherAreSpaced) {
    set("MODEL", "latency=5ms,gap=5ms,bandwidth=0.1");
    alone([] {
        constexpr std::size_t kSize = 100'000;
        constexpr milliseconds kTransmit{1};
        constexpr milliseconds kGap{5};
        constexpr uint64_t kCount = 6;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair one(hca, pd.get(), {}, kSize);
        Pair two(hca, pd.get(), {}, kSize);  // uses the same port
        const Stopwatch watch;
        for (uint64_t i = 0; i < kCount; ++i) {
            const Pair& pair = i % 2 ? two : one;
            ASSERT_EQ(RecvWr(i).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
            ASSERT_EQ(SendWr(IBV_WR_SEND, i).sge(pair.a_mem.sge()).post(pair.a.qp), 0);
        }
        for (uint64_t i = 0; i < kCount; ++i) {
            ASSERT_TRUE(next_are((i % 2 ? two : one).b.recv_cq, {i}));
            EXPECT_GE(watch.elapsed(), milliseconds(5) + kTransmit + (kGap + kTransmit) * i) << i;
        }
    });
}

TEST_P(ModelTest, RegistrationTakesItsTime) {
    set("MODEL", "reg-latency=15ms,reg-bandwidth=0.1");
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        const Stopwatch watch;
        Region memory(pd.get(), 2'000'000);
        EXPECT_GE(watch.elapsed().count(), 15 + 20);
        const Stopwatch again;
        ASSERT_EQ(ibv_rereg_mr(memory.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(),
                               1'000'000, 0),
                  0);
        EXPECT_GE(again.elapsed().count(), 15 + 10);
    });
}

// The responder acts when the request has arrived, and the requester learns of it one way later.
TEST_P(ModelTest, AtomicActsHalfWay) {
    set("MODEL", "latency=200ms");
    alone([] {
        constexpr milliseconds kWay{200};
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        bool seen_in_time = false;
        for (uint64_t i = 1; i <= 10 && !seen_in_time; ++i) {
            pair.b_mem.word(0) = 5;
            pair.a_mem.word(0) = 0;
            SendWr wr(IBV_WR_ATOMIC_FETCH_AND_ADD, i);
            wr.sge(pair.a_mem.sge(0, 8)).atomic(pair.b_mem.addr(), pair.b_mem.rkey(), 1);
            const Stopwatch watch;
            ASSERT_EQ(wr.post(pair.a.qp), 0);
            ASSERT_TRUE(comes([&] {
                ibv_wc wc;
                EXPECT_EQ(ibv_poll_cq(pair.b.recv_cq.get(), 1, &wc), 0);
                return look(pair.b_mem.word(0)) == 6;
            }));
            EXPECT_GE(watch.elapsed(), kWay);
            seen_in_time = watch.elapsed() < 2 * kWay;
            ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
            EXPECT_GE(watch.elapsed(), 2 * kWay);
            EXPECT_EQ(pair.a_mem.word(0), 5u);
        }
        EXPECT_TRUE(seen_in_time);
    });
}

TEST_P(ModelTest, MessageThatFoundNoReceiveTakesTheWayAgain) {
    set("MODEL", kLatencyModel);
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        const Stopwatch watch;
        for (const uint64_t id : {1, 2})
            ASSERT_EQ(SendWr(IBV_WR_SEND, id).sge(pair.a_mem.sge(0, 8)).post(pair.a.qp), 0);
        constexpr uint64_t kRefusals = 5;
        uint64_t refusals = 0;
        ASSERT_TRUE(comes([&] {
            ibv_wc wc;
            EXPECT_EQ(ibv_poll_cq(pair.a.send_cq.get(), 1, &wc), 0);
            refusals = sum(status(), "rnr_naks");
            return refusals >= kRefusals;
        }));
        EXPECT_GE(watch.elapsed(), kLatency * refusals);
        for (const uint64_t id : {3, 4})
            ASSERT_EQ(RecvWr(id).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        EXPECT_TRUE(next_are(pair.b.recv_cq, {3, 4}));
        EXPECT_TRUE(next_are(pair.a.send_cq, {1, 2}));
    });
}

TEST_P(ModelTest, LatenessIsCounted) {
    set("MODEL", "latency=1ms");
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        for (uint64_t i = 0; i < 10; ++i) {
            ASSERT_EQ(write(pair, i).post(pair.a.qp), 0);
            ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
        }
        EXPECT_EQ(sum(status(), "operations"), 10u);
        // A pause in the middle delays a write for certain.
        const uint64_t late = sum(status(), "late");
        const uint64_t total = sum(status(), "late_total_ns");
        inject("segment=4:70ms");
        ASSERT_EQ(write(pair, 10).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {10}));
        const std::string json = status();
        EXPECT_EQ(sum(json, "operations"), 11u);
        EXPECT_EQ(sum(json, "late"), late + 1);
        EXPECT_GE(sum(json, "late_total_ns"), total + 60'000'000);
    });
}

SOFTHCA_BOTH_EXECUTORS(ModelTest);

}  // namespace model_test
}  // namespace conformance::softhca
