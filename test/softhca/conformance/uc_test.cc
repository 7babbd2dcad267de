// SPDX-License-Identifier: BSD-3-Clause
// Unreliable connections: messages are lost without an error. Delivery is tested with that of RC.
#include "qp.h"

namespace conformance {
namespace {

class UcTest : public VerbsTest {
  protected:
    void SetUp() override {
        if (!has_transport(hca_, pd_.get(), IBV_QPT_UC)) GTEST_SKIP() << "no UC";
    }

    static QpSpec uc() {
        QpSpec spec;
        spec.type = IBV_QPT_UC;
        return spec;
    }

    // Checks that the connection works: a message with a posted receive arrives.
    static void expect_alive(Pair& pair, uint64_t id) {
        ASSERT_EQ(RecvWr(id).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, id).sge(pair.a_mem.sge(0, 32)).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {id}));
        EXPECT_TRUE(next_are(pair.b.recv_cq, {id}));
    }
};

TEST_F(UcTest, MessageWithoutAReceiveIsLost) {
    Pair pair(hca_, pd_.get(), uc());
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).sge(pair.a_mem.sge(0, 8)).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_TRUE(quiet(pair.b.recv_cq));
    expect_alive(pair, 2);
    EXPECT_TRUE(quiet(pair.b.recv_cq)) << "the lost message came back";
}

TEST_F(UcTest, SendsToNobodySucceed) {
    Pair pair(hca_, pd_.get(), uc());
    pair.b.qp.reset();
    for (uint64_t i = 0; i < 5; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).sge(pair.a_mem.sge(0, 8)).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {i}));
    }
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_RTS);
}

TEST_F(UcTest, WriteWithoutPermissionIsLost) {
    Pair pair(hca_, pd_.get(), uc());
    pair.a_mem.fill(1, 0, 8);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(pair.a_mem.sge(0, 8))
                  .remote(pair.b_mem.addr(), pair.b_mem.rkey() ^ 1)
                  .post(pair.a.qp),
              0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_TRUE(quiet(pair.b.recv_cq));
    EXPECT_TRUE(pair.b_mem.is_all(0, 0, 8));
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_RTS);
}

TEST_F(UcTest, MessageLongerThanItsReceiveIsNotDelivered) {
    Pair pair(hca_, pd_.get(), uc());
    ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 16)).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, 17)).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {2})) << "the sender does not know";
    // The device may drop the message or complete the receive with an error, but not with success.
    ibv_wc wc;
    if (ibv_poll_cq(pair.b.recv_cq.get(), 1, &wc) > 0) {
        EXPECT_NE(wc.status, IBV_WC_SUCCESS);
    }
    EXPECT_TRUE(pair.b_mem.is_all(0, 16, 64));
}

TEST_F(UcTest, ReadsAndAtomicsAreNotForThisTransport) {
    for (ibv_wr_opcode op :
         {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        Pair pair(hca_, pd_.get(), uc());
        SendWr wr(op, 1);
        wr.sge(pair.a_mem.sge(0, 8));
        if (op == IBV_WR_RDMA_READ)
            wr.remote(pair.b_mem);
        else
            wr.atomic(pair.b_mem.addr(), pair.b_mem.rkey(), 1);
        if (wr.post(pair.a.qp)) continue;
        EXPECT_NE(poll_one(pair.a.send_cq).status, IBV_WC_SUCCESS);
    }
}

TEST_F(UcTest, BadSourceStopsTheSendQueueOnly) {
    Pair pair(hca_, pd_.get(), uc());
    ASSERT_EQ(
        SendWr(IBV_WR_SEND, 1).sge({pair.a_mem.addr(), 8, pair.a_mem.lkey() ^ 1}).post(pair.a.qp),
        0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_SQE);
    // The queue pair still receives, and its send queue can be started again.
    ASSERT_EQ(RecvWr(3).post(pair.a.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 4).post(pair.b.qp), 0);
    EXPECT_TRUE(next_are(pair.a.recv_cq, {3}));
    apply_all(pair.a.qp.get(), {to_state(IBV_QPS_RTS)});
    expect_alive(pair, 5);
}

TEST_F(UcTest, QueuePairWithoutTheRightTakesNoWrite) {
    QpSpec closed = uc();
    closed.access = 0;
    Pair pair(hca_, pd_.get(), uc(), closed);
    pair.a_mem.fill(1, 0, 8);
    ASSERT_EQ(
        SendWr(IBV_WR_RDMA_WRITE, 1).sge(pair.a_mem.sge(0, 8)).remote(pair.b_mem).post(pair.a.qp),
        0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_TRUE(quiet(pair.b.recv_cq));
    EXPECT_TRUE(pair.b_mem.is_all(0, 0, 8));
}

}  // namespace
}  // namespace conformance
