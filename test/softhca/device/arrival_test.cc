// SPDX-License-Identifier: BSD-3-Clause
// The timing model in virtual time, to the ns: when bytes reach memory, when reads and atomics act
// at the responder, and that what is posted behind them does not wait for the answer.
#include "../conformance/xrc.h"
#include "virtual_fabric.h"

namespace conformance::softhca {
namespace virtual_time_test {
namespace {

constexpr std::size_t kBytes = 64;

class ArrivalTest : public VirtualTimeTest {};

// The word becomes 1 at `arrival`, and not before.
void expect_arrival(const uint64_t& word, uint64_t arrival) {
    run(arrival - 1);
    EXPECT_EQ(look(word), 0U) << "too early";
    run(arrival);
    EXPECT_EQ(look(word), 1U) << "late";
}

QpSpec with(ibv_qp_type type) {
    QpSpec spec;
    spec.type = type;
    spec.inline_data = 256;
    spec.reads = 4;
    return spec;
}

// A message that takes a receive, from member 0 to member 1.
void expect_message(const QpSpec& of_sender, SendWr&& wr, std::size_t bytes = kBytes) {
    Member a(0), b(1);
    QpSpec of_receiver = of_sender;
    Srq srq;
    if (of_sender.srq != nullptr) {
        srq = make_srq(b.pd.get());
        of_receiver.srq = srq.get();
    }
    QpSpec plain = of_sender;
    plain.srq = nullptr;
    const Way way(a, b, plain, of_receiver);
    a.memory.word(0) = 1;
    const std::size_t header = of_sender.type == IBV_QPT_UD ? 40 : 0;
    RecvWr receive(1);
    receive.sge(b.memory.sge());
    ASSERT_EQ(srq ? receive.post(srq) : receive.post(way.other.qp), 0);
    const Ah ah = a.hca.make_ah(a.pd.get(), b.hca.address());
    if (header != 0) wr.to(ah.get(), way.other.qp->qp_num, kQkey);
    if (wr.raw().opcode == IBV_WR_RDMA_WRITE_WITH_IMM) wr.remote(b.memory);
    const uint64_t arrival = clock().now + kLatency + bytes;
    ASSERT_EQ(wr.sge(a.memory.sge(0, bytes)).post(way.one.qp), 0);
    // What the program writes after the post is sent or not, but inline data is taken.
    if ((wr.raw().send_flags & IBV_SEND_INLINE) != 0) a.memory.word(0) = 7;
    expect_arrival(b.memory.word(header / 8), arrival - (bytes > 4096 ? bytes - 4096 : 0));
    run(arrival);
    clock().now = arrival + kCompletion - 1;
    EXPECT_EQ(polled(way.other.recv_cq), 0);
    clock().now = arrival + kCompletion;
    EXPECT_EQ(polled(way.other.recv_cq), 1);
}

SendWr send() {
    return SendWr(IBV_WR_SEND, 1);
}

TEST_F(ArrivalTest, TheBytesOfASend) {
    alone([] { expect_message(with(IBV_QPT_RC), send()); });
}

TEST_F(ArrivalTest, TheBytesOfAnInlineSendWithImmediate) {
    alone([] {
        SendWr wr(IBV_WR_SEND_WITH_IMM, 1);
        expect_message(with(IBV_QPT_RC),
                       std::move(wr.imm(5).flags(IBV_SEND_INLINE | IBV_SEND_SIGNALED)));
    });
}

TEST_F(ArrivalTest, TheBytesOfASendToASharedQueue) {
    alone([] {
        QpSpec spec = with(IBV_QPT_RC);
        spec.srq = reinterpret_cast<ibv_srq*>(1);  // any: that of the receiver
        expect_message(spec, send());
    });
}

TEST_F(ArrivalTest, TheBytesOfASendThatIsLongerThanAPacket) {
    alone([] { expect_message(with(IBV_QPT_RC), send(), 3 * 4096); });
}

TEST_F(ArrivalTest, TheBytesOfAWriteWithImmediate) {
    alone([] { expect_message(with(IBV_QPT_RC), SendWr(IBV_WR_RDMA_WRITE_WITH_IMM, 1)); });
}

TEST_F(ArrivalTest, TheBytesOfAnUnreliableSend) {
    alone([] { expect_message(with(IBV_QPT_UC), send()); });
}

TEST_F(ArrivalTest, TheBytesOfADatagram) {
    alone([] { expect_message(with(IBV_QPT_UD), send()); });
}

TEST_F(ArrivalTest, TheBytesOfAnXrcSend) {
    alone([] {
        Member a(0), b(1);
        const Xrcd domain = open_xrcd(b.hca);
        const Cq cq = b.hca.make_cq();
        const Cq sends = a.hca.make_cq();
        const Srq srq = make_xrc_srq(b.hca, b.pd.get(), domain.get(), cq.get());
        const Qp receiver = make_xrc_receiver(b.hca, domain.get());
        const Qp sender = make_xrc_sender(a.hca, a.pd.get(), sends.get(), {});
        const QpSpec out = xrc_send_spec(), in = xrc_recv_spec();
        bring_up(b.hca, receiver.get(), in, as_peer(a.hca, sender.get(), out));
        bring_up(a.hca, sender.get(), out, as_peer(b.hca, receiver.get(), in));
        a.memory.word(0) = 1;
        ASSERT_EQ(RecvWr(1).sge(b.memory.sge()).post(srq), 0);
        const uint64_t arrival = clock().now + kLatency + kBytes;
        ASSERT_EQ(send().sge(a.memory.sge(0, kBytes)).srqn(srq_number(srq)).post(sender), 0);
        expect_arrival(b.memory.word(0), arrival);
    });
}

TEST_F(ArrivalTest, SendsBehindAWrite) {
    alone([] {
        Member a(0), b(1);
        const Way way(a, b);
        a.memory.word(0) = 1;
        const uint64_t start = clock().now;
        way.write(1, 4096, 8192);
        for (const uint64_t id : {0, 1}) {
            RecvWr receive(id);
            ASSERT_EQ(receive.sge(b.memory.sge(id * kBytes, kBytes)).post(way.other.qp), 0);
            ASSERT_EQ(send().sge(a.memory.sge(0, kBytes)).post(way.one.qp), 0);
        }
        const uint64_t first = start + 4096 + kGap + kLatency + kBytes;
        expect_arrival(b.memory.word(0), first);
        expect_arrival(b.memory.word(kBytes / 8), first + kGap + kBytes);
    });
}

TEST_F(ArrivalTest, ManySends) {
    constexpr uint64_t kCount = 60;
    alone([] {
        Member a(0), b(1);
        const Way way(a, b);
        a.memory.word(0) = 1;
        const uint64_t start = clock().now;
        for (uint64_t i = 0; i < kCount; ++i) {
            ASSERT_EQ(RecvWr(i).sge(b.memory.sge(i * 8, 8)).post(way.other.qp), 0);
            ASSERT_EQ(send().sge(a.memory.sge(0, 8)).post(way.one.qp), 0);
        }
        for (uint64_t i = 0; i < kCount; ++i)
            expect_arrival(b.memory.word(i), start + kLatency + 8 + i * (kGap + 8));
        clock().now = start + kLatency * 3 + kCount * (kGap + 8);
        run(clock().now);
        for (uint64_t i = 0; i < kCount; ++i) {
            EXPECT_EQ(polled(way.other.recv_cq), 1);
            EXPECT_EQ(polled(way.one.send_cq), 1);
        }
    });
}

// The buffers of receives that a reset has dropped are the program's again.
TEST_F(ArrivalTest, NothingAfterTheReceiverIsReset) {
    alone([] {
        Member a(0), b(1);
        const Way way(a, b);
        a.memory.word(0) = 1;
        way.send(1, kBytes);
        apply_all(way.other.qp.get(), {to_state(IBV_QPS_RESET)});
        run(clock().now + 10 * kLatency);
        EXPECT_EQ(look(b.memory.word(0)), 0U);
    });
}

// The devices on which completions outlast their queue pair.
TEST_F(ArrivalTest, TheBytesOfACompletionThatOutlastsItsQueuePair) {
    set("RULES", "destroyed-completions=1");
    alone([] {
        Member a(0), b(1);
        Way way(a, b);
        a.memory.word(0) = 1;
        way.send(1, kBytes);
        run(clock().now += kLatency + kBytes);
        way.other.qp.reset();
        clock().now += kCompletion;
        EXPECT_EQ(polled(way.other.recv_cq), 1);
        EXPECT_EQ(look(b.memory.word(0)), 1U);
    });
}

// Reads a word, or adds to it.
void post_answered(const Way& way, ibv_wr_opcode opcode, std::size_t word, unsigned flags = 0) {
    SendWr wr(opcode, word);
    wr.sge(way.from.memory.sge(word * 8, 8)).flags(IBV_SEND_SIGNALED | flags);
    if (opcode == IBV_WR_RDMA_READ)
        wr.remote(way.to.memory, word * 8);
    else
        wr.atomic(way.to.memory.addr(word * 8), way.to.memory.rkey(), 10);
    ASSERT_EQ(wr.post(way.one.qp), 0);
}

// The answer holds what was there when the request came, and comes one latency later. The second
// request goes out before the first one is answered.
TEST_F(ArrivalTest, ReadsAndAtomicsActWhenTheRequestArrives) {
    alone([] {
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
            Member a(0), b(1);
            const Way way(a, b, with(IBV_QPT_RC), with(IBV_QPT_RC));
            clock().now += 100 * kLatency;
            const uint64_t start = clock().now;
            post_answered(way, opcode, 0);
            post_answered(way, opcode, 1);
            const uint64_t acts[] = {start + kLatency, start + kLatency + 8 + kGap};
            run(acts[0] - 1);
            b.memory.word(0) = 1;
            b.memory.word(1) = 1;
            run(acts[0]);
            b.memory.word(0) += 100;
            run(acts[1] - 1);
            b.memory.word(1) = 2;
            run(acts[1]);
            b.memory.word(1) += 100;
            const uint64_t before[] = {1, 2};
            for (const std::size_t word : {0, 1}) {
                const uint64_t arrival = acts[word] + kLatency + 8;
                run(arrival - 1);
                EXPECT_EQ(look(a.memory.word(word)), 0U) << opcode << ", " << word;
                run(arrival);
                EXPECT_EQ(look(a.memory.word(word)), before[word]) << opcode << ", " << word;
                const uint64_t added = opcode == IBV_WR_RDMA_READ ? 0 : 10;
                EXPECT_EQ(b.memory.word(word), before[word] + 100 + added);
            }
            clock().now = start + 4 * kLatency;
            EXPECT_EQ(polled(way.one.send_cq), 1);
            EXPECT_EQ(polled(way.one.send_cq), 1);
        }
    });
}

// A fence waits for the answer.
TEST_F(ArrivalTest, WhatIsBehindARead) {
    alone([] {
        for (const bool fence : {false, true}) {
            Member a(0), b(1);
            const Way way(a, b, with(IBV_QPT_RC), with(IBV_QPT_RC));
            clock().now += 100 * kLatency;
            const uint64_t start = clock().now;
            a.memory.word(512) = 1;
            post_answered(way, IBV_WR_RDMA_READ, 0);
            SendWr wr(IBV_WR_RDMA_WRITE, 1);
            wr.sge(a.memory.sge(4096, 8)).remote(b.memory, 4096);
            ASSERT_EQ(wr.flags(fence ? IBV_SEND_FENCE : 0).post(way.one.qp), 0);
            ASSERT_EQ(RecvWr(2).sge(b.memory.sge(8192, 8)).post(way.other.qp), 0);
            ASSERT_EQ(send().sge(a.memory.sge(4096, 8)).post(way.one.qp), 0);
            // The bytes of a word take 8 ns.
            const uint64_t sent = start + 8 + (fence ? 2 * kLatency : 0);
            expect_arrival(b.memory.word(512), sent + kLatency + 8);
            // The port is busy for a gap behind the write.
            expect_arrival(b.memory.word(1024), sent + kLatency + 8 + kGap + 8);
        }
    });
}

// A read that the responder refuses fails after what is before it, and stops what is behind it.
TEST_F(ArrivalTest, ARefusedReadBehindOthers) {
    alone([] {
        Member a(0), b(1);
        const Way way(a, b, with(IBV_QPT_RC), with(IBV_QPT_RC));
        a.memory.word(512) = 1;
        b.memory.word(0) = 3;
        post_answered(way, IBV_WR_RDMA_READ, 0);
        SendWr bad(IBV_WR_RDMA_READ, 1);
        bad.sge(a.memory.sge(8, 8)).remote(b.memory.addr(), b.memory.rkey() ^ 0xff);
        ASSERT_EQ(bad.post(way.one.qp), 0);
        SendWr wr(IBV_WR_RDMA_WRITE, 2);
        ASSERT_EQ(wr.sge(a.memory.sge(4096, 8)).remote(b.memory, 4096).post(way.one.qp), 0);
        clock().now += 10 * kLatency;
        run(clock().now);
        EXPECT_TRUE(next_are(way.one.send_cq, {0}));
        EXPECT_TRUE(next_are(way.one.send_cq, {1}, IBV_WC_REM_ACCESS_ERR));
        EXPECT_TRUE(next_are(way.one.send_cq, {2}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_EQ(a.memory.word(0), 3U);
        EXPECT_EQ(look(b.memory.word(512)), 0U);
    });
}

}  // namespace
}  // namespace virtual_time_test
}  // namespace conformance::softhca
