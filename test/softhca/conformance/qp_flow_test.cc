// SPDX-License-Identifier: BSD-3-Clause
// What a queue pair does in each state: only receiving, draining, flushing, starting again.
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

using QpFlowTest = VerbsTest;

Step drain(bool notify) {
    Step step = to_state(IBV_QPS_SQD);
    if (notify) {
        step.attr.en_sqd_async_notify = 1;
        step.mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
    }
    return step;
}

TEST_F(QpFlowTest, ReadyToReceiveReceives) {
    Endpoint a(hca_, pd_.get());
    Endpoint b(hca_, pd_.get());
    const Peer to_a = as_peer(hca_, a.qp.get(), a.spec);
    apply_all(b.qp.get(), {to_init(hca_, b.spec)});
    ASSERT_EQ(RecvWr(1).post(b.qp), 0);
    apply_all(b.qp.get(), {to_rtr(hca_, b.spec, to_a)});
    bring_up(hca_, a.qp.get(), a.spec, as_peer(hca_, b.qp.get(), b.spec));
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(a.qp), 0);
    EXPECT_TRUE(next_are(b.recv_cq, {1}));
    EXPECT_TRUE(next_are(a.send_cq, {2}));
    apply_all(b.qp.get(), {to_rts(b.spec)});
    ASSERT_EQ(RecvWr(3).post(a.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 4).post(b.qp), 0);
    EXPECT_TRUE(next_are(a.recv_cq, {3}));
}

TEST_F(QpFlowTest, DrainedQueueHoldsSendsUntilItGoesOn) {
    Pair pair(hca_, pd_.get());
    apply_all(pair.a.qp.get(), {drain(false)});
    ASSERT_EQ(RecvWr(1).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(pair.a.qp), 0);
    EXPECT_TRUE(quiet(pair.b.recv_cq));
    EXPECT_TRUE(quiet(pair.a.send_cq));
    apply_all(pair.a.qp.get(), {to_state(IBV_QPS_RTS)});
    EXPECT_TRUE(next_are(pair.b.recv_cq, {1}));
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}));
}

TEST_F(QpFlowTest, DrainedQueuePairReceives) {
    Pair pair(hca_, pd_.get());
    apply_all(pair.a.qp.get(), {drain(false)});
    ASSERT_EQ(RecvWr(1).post(pair.a.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(pair.b.qp), 0);
    EXPECT_TRUE(next_are(pair.a.recv_cq, {1}));
    EXPECT_TRUE(next_are(pair.b.send_cq, {2}));
}

TEST_F(QpFlowTest, DrainingNotAskedForIsSilent) {
    Pair pair(hca_, pd_.get());
    apply_all(pair.a.qp.get(), {drain(false), to_state(IBV_QPS_RTS)});
    EXPECT_TRUE(no_event(hca_, IBV_EVENT_SQ_DRAINED));
}

TEST_F(QpFlowTest, DrainingIsNotifiedWhenAsked) {
    Pair pair(hca_, pd_.get());
    apply_all(pair.a.qp.get(), {drain(true)});
    EXPECT_EQ(wait_event(hca_, IBV_EVENT_SQ_DRAINED).element.qp, pair.a.qp.get());
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(pair.a.qp.get(), &attr, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attr.sq_draining, 0);
}

TEST_F(QpFlowTest, DrainingWaitsForWhatIsUnderWay) {
    Pair pair(hca_, pd_.get());
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(pair.a.qp), 0);
    EXPECT_TRUE(quiet(pair.a.send_cq)) << "there is no receive yet";
    apply_all(pair.a.qp.get(), {drain(true)});
    EXPECT_TRUE(no_event(hca_, IBV_EVENT_SQ_DRAINED));
    ASSERT_EQ(RecvWr(2).post(pair.b.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_EQ(wait_event(hca_, IBV_EVENT_SQ_DRAINED).element.qp, pair.a.qp.get());
}

class QpFlushTest : public TransportTest {
  protected:
    QpSpec spec() const {
        QpSpec wanted;
        wanted.type = GetParam();
        return wanted;
    }
};

TEST_P(QpFlushTest, ErrorFlushesBothQueuesInOrder) {
    Pair pair(hca_, pd_.get(), spec());
    Ah ah = hca_.make_ah(pd_.get(), hca_.address());
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 10; ++i) {
        ASSERT_EQ(RecvWr(i).post(pair.a.qp), 0);
        ids.push_back(i);
    }
    apply_all(pair.a.qp.get(), {to_state(IBV_QPS_ERR)});
    for (uint64_t i = 0; i < 10; ++i) {
        SendWr wr(IBV_WR_SEND, i);
        if (GetParam() == IBV_QPT_UD) wr.to(ah.get(), pair.b.qp->qp_num, kQkey);
        if (i % 2) wr.flags(0);  // unsignalled requests fail with a completion too
        ASSERT_EQ(wr.post(pair.a.qp), 0);
    }
    EXPECT_TRUE(next_are(pair.a.recv_cq, ids, IBV_WC_WR_FLUSH_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, ids, IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(state_of(pair.b.qp), IBV_QPS_RTS);
}

TEST_P(QpFlushTest, WorkPostedInErrorIsFlushed) {
    Pair pair(hca_, pd_.get(), spec());
    apply_all(pair.a.qp.get(), {to_state(IBV_QPS_ERR)});
    for (uint64_t i = 0; i < 200; ++i) {
        ASSERT_EQ(RecvWr(i).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.a.recv_cq, {i}, IBV_WC_WR_FLUSH_ERR));
    }
}

TEST_P(QpFlushTest, StartsOverAfterReset) {
    Pair pair(hca_, pd_.get(), spec());
    Ah ah = hca_.make_ah(pd_.get(), hca_.address());
    for (uint64_t round = 0; round < 5; ++round) {
        ASSERT_EQ(RecvWr(round).sge(pair.b_mem.sge(0, 256)).post(pair.b.qp), 0);
        SendWr wr(IBV_WR_SEND, round);
        wr.sge(pair.a_mem.sge(0, 64));
        if (GetParam() == IBV_QPT_UD) wr.to(ah.get(), pair.b.qp->qp_num, kQkey);
        ASSERT_EQ(wr.post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {round}));
        ASSERT_TRUE(next_are(pair.b.recv_cq, {round}));
        for (Endpoint* end : {&pair.a, &pair.b}) {
            ASSERT_EQ(RecvWr(99).post(end->qp), 0);
            if (round % 2) {
                apply_all(end->qp.get(), {to_state(IBV_QPS_ERR)});
                ASSERT_TRUE(next_are(end->recv_cq, {99}, IBV_WC_WR_FLUSH_ERR));
            }
            apply_all(end->qp.get(), {to_state(IBV_QPS_RESET)});
        }
        connect(hca_, pair.a.qp, pair.b.qp, spec());
    }
    EXPECT_TRUE(quiet(pair.a.recv_cq));
}

INSTANTIATE_TEST_SUITE_P(Transports, QpFlushTest,
                         testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD), transport_case);

TEST_F(QpFlowTest, OutstandingSendsAreFlushedInOrder) {
    Pair pair(hca_, pd_.get());
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 20; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).post(pair.a.qp), 0);  // waits for a posted receive
        ids.push_back(i);
    }
    apply_all(pair.a.qp.get(), {to_state(IBV_QPS_ERR)});
    EXPECT_TRUE(next_are(pair.a.send_cq, ids, IBV_WC_WR_FLUSH_ERR));
    EXPECT_TRUE(quiet(pair.b.recv_cq));
}

}  // namespace
}  // namespace conformance
