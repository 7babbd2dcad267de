// SPDX-License-Identifier: BSD-3-Clause
// Reliable connections: peers that are not ready, or do not answer.
#include <functional>
#include <ostream>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

// How a peer stops answering.
struct Absence {
    const char* name;
    std::function<void(Endpoint& peer)> cause;
};

void PrintTo(const Absence& absence, std::ostream* out) {
    *out << absence.name;
}

const Absence kAbsences[] = {
    {"Reset", [](Endpoint& peer) { apply_all(peer.qp.get(), {to_state(IBV_QPS_RESET)}); }},
    {"Error", [](Endpoint& peer) { apply_all(peer.qp.get(), {to_state(IBV_QPS_ERR)}); }},
    {"Destroyed", [](Endpoint& peer) { peer.qp.reset(); }},
};

class RcAbsentPeerTest : public VerbsTest, public testing::WithParamInterface<Absence> {};

TEST_P(RcAbsentPeerTest, RetriesRunOutAndTheRestIsFlushed) {
    Pair pair(hca_, pd_.get(), quick());
    GetParam().cause(pair.b);
    ASSERT_EQ(RecvWr(9).post(pair.a.qp), 0);
    for (uint64_t i = 0; i < 5; ++i)
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).flags(i == 3 ? 0 : IBV_SEND_SIGNALED).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {0}, IBV_WC_RETRY_EXC_ERR));
    EXPECT_TRUE(next_are(pair.a.send_cq, {1, 2, 3, 4}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_TRUE(next_are(pair.a.recv_cq, {9}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_ERR);
}

TEST_P(RcAbsentPeerTest, OneSidedOperationsRunOutOfRetriesToo) {
    for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
        Pair pair(hca_, pd_.get(), quick());
        GetParam().cause(pair.b);
        ASSERT_EQ(SendWr(op, 1).sge(pair.a_mem.sge(0, 8)).remote(pair.b_mem).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
    }
}

TEST_P(RcAbsentPeerTest, UnsignalledRequestFailsAloud) {
    Pair pair(hca_, pd_.get(), quick());
    GetParam().cause(pair.b);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).flags(0).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
}

INSTANTIATE_TEST_SUITE_P(Peers, RcAbsentPeerTest, testing::ValuesIn(kAbsences),
                         [](const auto& test) { return test.param.name; });

using RcRetryTest = VerbsTest;

TEST_F(RcRetryTest, PeerThatNeverBecameReadyRunsOutOfRetries) {
    Endpoint a(hca_, pd_.get(), quick());
    Endpoint b(hca_, pd_.get(), quick());
    apply_all(b.qp.get(), {to_init(hca_, b.spec)});
    ASSERT_EQ(RecvWr(1).post(b.qp), 0);
    bring_up(hca_, a.qp.get(), a.spec, as_peer(hca_, b.qp.get(), b.spec));
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(a.qp), 0);
    EXPECT_TRUE(next_are(a.send_cq, {2}, IBV_WC_RETRY_EXC_ERR));
    EXPECT_TRUE(quiet(b.recv_cq));
}

TEST_F(RcRetryTest, QueuePairNumberThatNobodyHasRunsOutOfRetries) {
    Endpoint a(hca_, pd_.get(), quick());
    Peer nobody = as_peer(hca_, a.qp.get(), a.spec);
    nobody.qpn = a.qp->qp_num ^ 0x400000;
    bring_up(hca_, a.qp.get(), a.spec, nobody);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(a.qp), 0);
    EXPECT_TRUE(next_are(a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
}

TEST_F(RcRetryTest, PeerThatBecomesReadyInTimeIsServed) {
    QpSpec patient;
    patient.timeout = 16;  // 268 ms for each of seven attempts
    Endpoint a(hca_, pd_.get(), patient);
    Endpoint b(hca_, pd_.get(), patient);
    apply_all(b.qp.get(), {to_init(hca_, b.spec)});
    ASSERT_EQ(RecvWr(1).post(b.qp), 0);
    bring_up(hca_, a.qp.get(), a.spec, as_peer(hca_, b.qp.get(), b.spec));
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(a.qp), 0);
    EXPECT_TRUE(quiet(a.send_cq));
    apply_all(b.qp.get(), {to_rtr(hca_, b.spec, as_peer(hca_, a.qp.get(), a.spec))});
    EXPECT_TRUE(next_are(b.recv_cq, {1}));
    EXPECT_TRUE(next_are(a.send_cq, {2}));
}

class RcNotReadyTest : public VerbsTest, public testing::WithParamInterface<int> {};

TEST_P(RcNotReadyTest, RetriesRunOutWhenNoReceiveIsPosted) {
    for (ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM}) {
        QpSpec spec = quick();
        spec.rnr_retry = static_cast<uint8_t>(GetParam());
        Pair pair(hca_, pd_.get(), spec);
        ASSERT_EQ(SendWr(op, 1).post(pair.a.qp), 0);
        ASSERT_EQ(SendWr(op, 2).post(pair.a.qp), 0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_RNR_RETRY_EXC_ERR));
        EXPECT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_ERR);
        EXPECT_EQ(state_of(pair.b.qp), IBV_QPS_RTS) << "the responder did nothing wrong";
    }
}

INSTANTIATE_TEST_SUITE_P(Retries, RcNotReadyTest, testing::Values(0, 1, 2, 6),
                         testing::PrintToStringParamName());

TEST_F(RcRetryTest, InfiniteRetryWaitsForAReceive) {
    QpSpec spec = quick();
    spec.rnr_retry = 7;
    Pair pair(hca_, pd_.get(), spec);
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 10; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).sge(pair.a_mem.sge(8 * i, 8)).post(pair.a.qp), 0);
        ids.push_back(i);
    }
    // Much longer than the transport's time-out, which must not expire: an RNR NAK is an answer.
    EXPECT_TRUE(quiet(pair.a.send_cq));
    EXPECT_TRUE(quiet(pair.a.send_cq));
    for (uint64_t i : ids) ASSERT_EQ(RecvWr(i).sge(pair.b_mem.sge(8 * i, 8)).post(pair.b.qp), 0);
    EXPECT_TRUE(next_are(pair.b.recv_cq, ids));
    EXPECT_TRUE(next_are(pair.a.send_cq, ids));
}

TEST_F(RcRetryTest, NotReadyHoldsUpWhatIsBehindItOnly) {
    Pair stuck(hca_, pd_.get());
    Pair other(hca_, pd_.get());
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(stuck.a.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2)
                  .sge(stuck.a_mem.sge(0, 8))
                  .remote(stuck.b_mem)
                  .post(stuck.a.qp),
              0);
    ASSERT_EQ(RecvWr(3).post(other.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 4).post(other.a.qp), 0);
    EXPECT_TRUE(next_are(other.a.send_cq, {4}));
    EXPECT_TRUE(quiet(stuck.a.send_cq));
    ASSERT_EQ(RecvWr(5).post(stuck.b.qp), 0);
    EXPECT_TRUE(next_are(stuck.a.send_cq, {1, 2}));
}

TEST_F(RcRetryTest, NotReadyPeerThatDisappearsRunsOutOfRetries) {
    QpSpec spec = quick();
    spec.rnr_retry = 7;
    Pair pair(hca_, pd_.get(), spec);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(pair.a.qp), 0);
    EXPECT_TRUE(quiet(pair.a.send_cq));
    pair.b.qp.reset();
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
}

TEST_F(RcRetryTest, ConnectionWorksAgainAfterReset) {
    QpSpec spec = quick();
    Pair pair(hca_, pd_.get(), spec);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(pair.a.qp), 0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_RNR_RETRY_EXC_ERR));
    for (Endpoint* end : {&pair.a, &pair.b}) apply_all(end->qp.get(), {to_state(IBV_QPS_RESET)});
    connect(hca_, pair.a.qp, pair.b.qp, spec);
    ASSERT_EQ(RecvWr(2).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 3).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.b.recv_cq, {2}));
    EXPECT_TRUE(next_are(pair.a.send_cq, {3}));
}

}  // namespace
}  // namespace conformance
