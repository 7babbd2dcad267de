// SPDX-License-Identifier: BSD-3-Clause
// XRC traffic in one process: senders, their receivers, and several shared receive queues.
#include <arpa/inet.h>

#include "xrc.h"

namespace conformance {
namespace {

class XrcTrafficTest : public XrcTest {
  protected:
    struct Inbox {
        Inbox(const Hca& hca, ibv_pd* pd, ibv_xrcd* xrcd)
            : mem(pd, 1 << 16), cq(hca.make_cq()), srq(make_xrc_srq(hca, pd, xrcd, cq.get())) {}
        Region mem;
        Cq cq;
        Srq srq;
    };

    struct Connection {
        Connection(const Hca& hca, ibv_pd* pd, ibv_xrcd* xrcd, const QpSpec& spec)
            : mem(pd, 1 << 16),
              cq(hca.make_cq()),
              sender(make_xrc_sender(hca, pd, cq.get(), spec)),
              receiver(make_xrc_receiver(hca, xrcd)) {
            connect_xrc(hca, sender, receiver, spec);
        }
        Region mem;
        Cq cq;
        Qp sender;
        Qp receiver;
    };

    void SetUp() override {
        XrcTest::SetUp();
        if (IsSkipped()) return;
        xrcd_ = open_xrcd(hca_);
        ASSERT_NE(xrcd_, nullptr);
    }

    Connection connection(const QpSpec& spec = {}) {
        return Connection(hca_, pd_.get(), xrcd_.get(), spec);
    }
    Inbox inbox() { return Inbox(hca_, pd_.get(), xrcd_.get()); }

    Xrcd xrcd_;
};

TEST_F(XrcTrafficTest, MessageLandsInTheAddressedQueue) {
    Inbox inboxes[] = {inbox(), inbox(), inbox()};
    Connection link = connection();
    for (Inbox& box : inboxes)
        for (uint64_t i = 0; i < 4; ++i)
            ASSERT_EQ(RecvWr(i).sge(box.mem.sge(i * 8192, 8192)).post(box.srq), 0);
    for (uint64_t i = 0; i < 4; ++i) {
        for (Inbox& box : inboxes) {
            const auto seed = static_cast<unsigned>(i * 3 + (&box - inboxes));
            link.mem.fill(seed, 0, 5000);
            ASSERT_EQ(SendWr(IBV_WR_SEND_WITH_IMM, seed)
                          .sge(link.mem.sge(0, 5000))
                          .imm(seed)
                          .srqn(srq_number(box.srq))
                          .post(link.sender),
                      0);
            const ibv_wc wc = poll_one(box.cq);
            ASSERT_TRUE(is_done(wc, i));
            EXPECT_EQ(wc.opcode, IBV_WC_RECV);
            EXPECT_EQ(wc.byte_len, 5000u);
            EXPECT_EQ(wc.qp_num, link.receiver->qp_num);
            EXPECT_EQ(ntohl(wc.imm_data), seed);
            EXPECT_TRUE(box.mem.holds(seed, i * 8192, 5000));
            ASSERT_TRUE(next_are(link.cq, {seed}));
            for (Inbox& other : inboxes) {
                ibv_wc none;
                EXPECT_EQ(ibv_poll_cq(other.cq.get(), 1, &none), 0);
            }
        }
    }
}

TEST_F(XrcTrafficTest, SeveralSendersShareAQueue) {
    Inbox box = inbox();
    Connection links[] = {connection(), connection(), connection()};
    for (uint64_t i = 0; i < 12; ++i)
        ASSERT_EQ(RecvWr(i).sge(box.mem.sge(i * 64, 64)).post(box.srq), 0);
    for (uint64_t i = 0; i < 12; ++i) {
        Connection& link = links[i % 3];
        link.mem.fill(static_cast<unsigned>(i), 0, 64);
        ASSERT_EQ(SendWr(IBV_WR_SEND, i)
                      .sge(link.mem.sge(0, 64))
                      .srqn(srq_number(box.srq))
                      .post(link.sender),
                  0);
        ASSERT_TRUE(next_are(link.cq, {i}));
        const ibv_wc wc = poll_one(box.cq);
        EXPECT_TRUE(is_done(wc, i));
        EXPECT_EQ(wc.qp_num, link.receiver->qp_num);
        EXPECT_TRUE(box.mem.holds(static_cast<unsigned>(i), i * 64, 64));
    }
}

TEST_F(XrcTrafficTest, ReceiverIsReadyWithoutReadyToSend) {
    Inbox box = inbox();
    Cq cq = hca_.make_cq();
    Qp sender = make_xrc_sender(hca_, pd_.get(), cq.get(), {});
    Qp receiver = make_xrc_receiver(hca_, xrcd_.get());
    const QpSpec out = xrc_send_spec();
    const QpSpec in = xrc_recv_spec();
    apply_all(receiver.get(),
              {to_init(hca_, in), to_rtr(hca_, in, as_peer(hca_, sender.get(), out))});
    bring_up(hca_, sender.get(), out, as_peer(hca_, receiver.get(), in));
    ASSERT_EQ(RecvWr(1).post(box.srq), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).srqn(srq_number(box.srq)).post(sender), 0);
    EXPECT_TRUE(next_are(box.cq, {1}));
    EXPECT_TRUE(next_are(cq, {2}));
}

TEST_F(XrcTrafficTest, OneSidedOperationsWork) {
    Inbox box = inbox();
    Connection link = connection();
    const uint32_t number = srq_number(box.srq);
    link.mem.fill(1, 0, 9000);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(link.mem.sge(0, 9000))
                  .remote(box.mem)
                  .srqn(number)
                  .post(link.sender),
              0);
    ASSERT_TRUE(next_are(link.cq, {1}));
    EXPECT_TRUE(box.mem.holds(1, 0, 9000));
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 2)
                  .sge(link.mem.sge(20000, 9000))
                  .remote(box.mem)
                  .srqn(number)
                  .post(link.sender),
              0);
    ASSERT_TRUE(next_are(link.cq, {2}));
    EXPECT_TRUE(link.mem.holds(1, 20000, 9000));
    ASSERT_EQ(RecvWr(3).post(box.srq), 0);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE_WITH_IMM, 4)
                  .sge(link.mem.sge(0, 100))
                  .remote(box.mem, 30000)
                  .imm(77)
                  .srqn(number)
                  .post(link.sender),
              0);
    const ibv_wc wc = poll_one(box.cq);
    EXPECT_TRUE(is_done(wc, 3));
    EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(wc.byte_len, 100u);
    ASSERT_TRUE(next_are(link.cq, {4}));
    if (!hca_.has_atomics()) return;
    box.mem.word(0) = 40;
    ASSERT_EQ(SendWr(IBV_WR_ATOMIC_FETCH_AND_ADD, 5)
                  .sge(link.mem.sge(0, 8))
                  .atomic(box.mem.addr(), box.mem.rkey(), 2)
                  .srqn(number)
                  .post(link.sender),
              0);
    ASSERT_TRUE(next_are(link.cq, {5}));
    EXPECT_EQ(box.mem.word(0), 42u);
    EXPECT_EQ(link.mem.word(0), 40u);
}

TEST_F(XrcTrafficTest, BadKeyIsARemoteAccessError) {
    Inbox box = inbox();
    Connection link = connection(quick());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(link.mem.sge(0, 8))
                  .remote(box.mem.addr(), box.mem.rkey() ^ 1)
                  .srqn(srq_number(box.srq))
                  .post(link.sender),
              0);
    EXPECT_TRUE(next_are(link.cq, {1}, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(reaches(link.receiver, IBV_QPS_ERR));
}

TEST_F(XrcTrafficTest, EmptyQueueStallsItsMessageUntilAReceiveIsPosted) {
    Inbox box = inbox();
    Inbox other = inbox();
    Connection link = connection();
    Connection second = connection();
    ASSERT_EQ(
        SendWr(IBV_WR_SEND, 1).sge(link.mem.sge(0, 8)).srqn(srq_number(box.srq)).post(link.sender),
        0);
    EXPECT_TRUE(quiet(link.cq));
    // The stall does not affect a connection to another queue of the domain.
    ASSERT_EQ(RecvWr(2).post(other.srq), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 3).srqn(srq_number(other.srq)).post(second.sender), 0);
    EXPECT_TRUE(next_are(second.cq, {3}));
    EXPECT_TRUE(next_are(other.cq, {2}));
    ASSERT_EQ(RecvWr(4).sge(box.mem.sge()).post(box.srq), 0);
    EXPECT_TRUE(next_are(box.cq, {4}));
    EXPECT_TRUE(next_are(link.cq, {1}));
}

TEST_F(XrcTrafficTest, EmptyQueueExhaustsFiniteRetries) {
    Inbox box = inbox();
    Connection link = connection(quick());
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).srqn(srq_number(box.srq)).post(link.sender), 0);
    EXPECT_TRUE(next_are(link.cq, {1}, IBV_WC_RNR_RETRY_EXC_ERR));
}

void expect_no_such_queue(Cq& cq, uint64_t id) {
    const ibv_wc wc = poll_one(cq);
    EXPECT_EQ(wc.wr_id, id);
    // Devices report different errors here.
    EXPECT_TRUE(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_ACCESS_ERR ||
                wc.status == IBV_WC_REM_OP_ERR)
        << ibv_wc_status_str(wc.status);
}

TEST_F(XrcTrafficTest, NumberThatNoQueueHasIsRefused) {
    Inbox box = inbox();
    Connection link = connection(quick());
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).srqn(srq_number(box.srq) ^ 0x400000).post(link.sender), 0);
    expect_no_such_queue(link.cq, 1);
    EXPECT_EQ(state_of(link.sender), IBV_QPS_ERR);
}

TEST_F(XrcTrafficTest, QueueOfAnotherDomainIsRefused) {
    Xrcd elsewhere = open_xrcd(hca_);
    ASSERT_NE(elsewhere, nullptr);
    Inbox foreign(hca_, pd_.get(), elsewhere.get());
    ASSERT_EQ(RecvWr(1).post(foreign.srq), 0);
    Connection link = connection(quick());
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).srqn(srq_number(foreign.srq)).post(link.sender), 0);
    expect_no_such_queue(link.cq, 2);
    EXPECT_TRUE(quiet(foreign.cq));
}

TEST_F(XrcTrafficTest, MessageLongerThanItsReceiveFailsBothSides) {
    Inbox box = inbox();
    Connection link = connection(quick());
    Connection other = connection();
    ASSERT_EQ(RecvWr(1).sge(box.mem.sge(0, 100)).post(box.srq), 0);
    ASSERT_EQ(RecvWr(2).sge(box.mem.sge(1000, 100)).post(box.srq), 0);
    const uint32_t number = srq_number(box.srq);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 3).sge(link.mem.sge(0, 101)).srqn(number).post(link.sender), 0);
    EXPECT_TRUE(next_are(link.cq, {3}, IBV_WC_REM_INV_REQ_ERR));
    EXPECT_TRUE(next_are(box.cq, {1}, IBV_WC_LOC_LEN_ERR));
    EXPECT_TRUE(box.mem.is_all(0, 100, 900));
    // The queue and its other connections still work.
    ASSERT_EQ(SendWr(IBV_WR_SEND, 4).sge(other.mem.sge(0, 100)).srqn(number).post(other.sender), 0);
    EXPECT_TRUE(next_are(box.cq, {2}));
    EXPECT_TRUE(next_are(other.cq, {4}));
}

TEST_F(XrcTrafficTest, LimitEventComesWhenTheQueueRunsLow) {
    Inbox box = inbox();
    Connection link = connection();
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(RecvWr(i).post(box.srq), 0);
    ibv_srq_attr attr{};
    attr.srq_limit = 3;
    ASSERT_EQ(ibv_modify_srq(box.srq.get(), &attr, IBV_SRQ_LIMIT), 0);
    for (uint64_t i = 0; i < 2; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).srqn(srq_number(box.srq)).post(link.sender), 0);
        ASSERT_TRUE(next_are(box.cq, {i}));
    }
    EXPECT_EQ(wait_event(hca_, IBV_EVENT_SRQ_LIMIT_REACHED).element.srq, box.srq.get());
}

}  // namespace
}  // namespace conformance
