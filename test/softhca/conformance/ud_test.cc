// SPDX-License-Identifier: BSD-3-Clause
// Unreliable datagrams.
#include <arpa/inet.h>

#include <cstring>
#include <memory>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

constexpr std::size_t kGrh = 40;

class UdTest : public VerbsTest {
  protected:
    static QpSpec ud() {
        QpSpec spec;
        spec.type = IBV_QPT_UD;
        return spec;
    }

    std::size_t mtu() const { return std::size_t{128} << hca_.port_attr().active_mtu; }

    // A send request from a to b.
    SendWr to_b(uint64_t id, std::size_t size, uint32_t qkey = kQkey) {
        SendWr wr(IBV_WR_SEND, id);
        if (size > 0) wr.sge(pair_.a_mem.sge(0, size));
        wr.to(ah_.get(), pair_.b.qp->qp_num, qkey);
        return wr;
    }

    void receive(uint64_t id, std::size_t size = 8192) {
        ASSERT_EQ(RecvWr(id).sge(pair_.b_mem.sge(0, size)).post(pair_.b.qp), 0);
    }

    void expect_alive(uint64_t id) {
        receive(id);
        ASSERT_EQ(to_b(id, 32).post(pair_.a.qp), 0);
        EXPECT_TRUE(next_are(pair_.a.send_cq, {id}));
        EXPECT_TRUE(next_are(pair_.b.recv_cq, {id}));
    }

    Pair pair_{hca_, pd_.get(), ud()};
    Ah ah_ = hca_.make_ah(pd_.get(), hca_.address());
};

TEST_F(UdTest, PayloadFollowsRoomForTheRouteHeader) {
    unsigned seed = 0;
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, mtu()}) {
        pair_.a_mem.fill(++seed, 0, size);
        receive(1, kGrh + size);
        ASSERT_EQ(to_b(2, size).post(pair_.a.qp), 0);
        const ibv_wc wc = poll_one(pair_.b.recv_cq);
        ASSERT_TRUE(is_done(wc, 1));
        EXPECT_EQ(wc.opcode, IBV_WC_RECV);
        EXPECT_EQ(wc.byte_len, kGrh + size) << "the header counts";
        EXPECT_EQ(wc.qp_num, pair_.b.qp->qp_num);
        EXPECT_EQ(wc.src_qp, pair_.a.qp->qp_num);
        EXPECT_TRUE(pair_.b_mem.holds(seed, kGrh, size));
        if (hca_.port_attr().link_layer != IBV_LINK_LAYER_ETHERNET) {
            EXPECT_EQ(wc.slid, hca_.port_attr().lid);
            EXPECT_EQ(wc.pkey_index, 0);
            EXPECT_EQ(wc.sl, 0);
        }
        EXPECT_TRUE(next_are(pair_.a.send_cq, {2}));
    }
}

TEST_F(UdTest, RouteHeaderNamesBothEnds) {
    ibv_ah_attr path = hca_.path_to(hca_.address());
    if (!path.is_global) {
        path.is_global = 1;
        path.grh.dgid = hca_.address().gid;
        path.grh.hop_limit = 1;
    }
    Ah global(ibv_create_ah(pd_.get(), &path));
    ASSERT_NE(global, nullptr);
    receive(1);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).to(global.get(), pair_.b.qp->qp_num, kQkey).post(pair_.a.qp),
              0);
    const ibv_wc wc = poll_one(pair_.b.recv_cq);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
    if (hca_.port_attr().link_layer != IBV_LINK_LAYER_ETHERNET) {
        ibv_grh grh;
        std::memcpy(&grh, pair_.b_mem.data(), sizeof grh);
        EXPECT_EQ(std::memcmp(&grh.sgid, &path.grh.dgid, sizeof grh.sgid), 0);
        EXPECT_EQ(std::memcmp(&grh.dgid, &path.grh.dgid, sizeof grh.dgid), 0);
        EXPECT_EQ(ntohl(grh.version_tclass_flow) >> 28, 6u);
    }
}

TEST_F(UdTest, ImmediateDataArrives) {
    receive(1);
    SendWr wr(IBV_WR_SEND_WITH_IMM, 2);
    wr.sge(pair_.a_mem.sge(0, 8)).imm(0x600df00d).to(ah_.get(), pair_.b.qp->qp_num, kQkey);
    ASSERT_EQ(wr.post(pair_.a.qp), 0);
    const ibv_wc wc = poll_one(pair_.b.recv_cq);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(ntohl(wc.imm_data), 0x600df00du);
}

TEST_F(UdTest, AnswerGoesToWhereTheMessageCameFrom) {
    receive(1);
    ASSERT_EQ(to_b(2, 16).post(pair_.a.qp), 0);
    ibv_wc wc = poll_one(pair_.b.recv_cq);
    ASSERT_TRUE(is_done(wc, 1));
    auto* grh = reinterpret_cast<ibv_grh*>(pair_.b_mem.data());
    Ah back(ibv_create_ah_from_wc(pd_.get(), &wc, grh, hca_.port()));
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(RecvWr(3).sge(pair_.a_mem.sge(4096, 4096)).post(pair_.a.qp), 0);
    pair_.b_mem.fill(8, 9000, 50);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 4)
                  .sge(pair_.b_mem.sge(9000, 50))
                  .to(back.get(), wc.src_qp, kQkey)
                  .post(pair_.b.qp),
              0);
    const ibv_wc answer = poll_one(pair_.a.recv_cq);
    ASSERT_TRUE(is_done(answer, 3));
    EXPECT_EQ(answer.src_qp, pair_.b.qp->qp_num);
    EXPECT_TRUE(pair_.a_mem.holds(8, 4096 + kGrh, 50));
}

TEST_F(UdTest, WrongKeyIsDropped) {
    receive(1);
    ASSERT_EQ(to_b(2, 16, kQkey + 1).post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(pair_.a.send_cq, {2}));
    EXPECT_TRUE(quiet(pair_.b.recv_cq));
    ASSERT_EQ(to_b(3, 16).post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(pair_.b.recv_cq, {1})) << "the receive is still there";
}

TEST_F(UdTest, HighBitOfTheKeySelectsTheSendersOwn) {
    receive(1);
    ASSERT_EQ(to_b(2, 16, 0x80000000).post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(pair_.a.send_cq, {2}));
    EXPECT_TRUE(next_are(pair_.b.recv_cq, {1}));
}

TEST_F(UdTest, MessageWithoutAReceiveIsDropped) {
    ASSERT_EQ(to_b(1, 16).post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(pair_.a.send_cq, {1}));
    EXPECT_TRUE(quiet(pair_.b.recv_cq));
    expect_alive(2);
    EXPECT_TRUE(quiet(pair_.b.recv_cq)) << "the dropped message came back";
}

TEST_F(UdTest, MessageToNobodyIsDropped) {
    SendWr wr(IBV_WR_SEND, 1);
    wr.to(ah_.get(), pair_.b.qp->qp_num ^ 0x400000, kQkey);
    ASSERT_EQ(wr.post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(pair_.a.send_cq, {1}));
    EXPECT_EQ(state_of(pair_.a.qp), IBV_QPS_RTS);
    expect_alive(2);
}

TEST_F(UdTest, MessageToAConnectedQueuePairIsDropped) {
    Pair connected(hca_, pd_.get());
    ASSERT_EQ(RecvWr(1).sge(connected.b_mem.sge()).post(connected.b.qp), 0);
    SendWr wr(IBV_WR_SEND, 2);
    wr.to(ah_.get(), connected.b.qp->qp_num, kQkey);
    ASSERT_EQ(wr.post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(pair_.a.send_cq, {2}));
    EXPECT_TRUE(quiet(connected.b.recv_cq));
    EXPECT_EQ(state_of(connected.b.qp), IBV_QPS_RTS);
}

TEST_F(UdTest, MessageLongerThanAPacketIsNotSent) {
    // C10-93.1.1: the device sends nothing; it may or may not report an error.
    receive(1);
    SendWr wr = to_b(2, mtu() + 1);
    if (wr.post(pair_.a.qp) == 0) poll_one(pair_.a.send_cq);
    EXPECT_TRUE(quiet(pair_.b.recv_cq));
}

TEST_F(UdTest, MessageLongerThanItsReceiveIsNotDelivered) {
    receive(1, kGrh + 16);
    ASSERT_EQ(to_b(2, 17).post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(pair_.a.send_cq, {2})) << "the sender does not know";
    ibv_wc wc;
    if (ibv_poll_cq(pair_.b.recv_cq.get(), 1, &wc) > 0) {
        EXPECT_NE(wc.status, IBV_WC_SUCCESS);
    }
    EXPECT_TRUE(pair_.b_mem.is_all(0, kGrh + 16, 64));
}

TEST_F(UdTest, OnlySendsAreForThisTransport) {
    for (ibv_wr_opcode op :
         {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV}) {
        Pair pair(hca_, pd_.get(), ud());
        SendWr wr(op, 1);
        wr.sge(pair.a_mem.sge(0, 8)).to(ah_.get(), pair.b.qp->qp_num, kQkey);
        if (wr.post(pair.a.qp)) continue;
        EXPECT_NE(poll_one(pair.a.send_cq).status, IBV_WC_SUCCESS) << op;
    }
}

TEST_F(UdTest, BadSourceStopsTheSendQueueOnly) {
    SendWr bad(IBV_WR_SEND, 1);
    bad.sge({pair_.a_mem.addr(), 8, pair_.a_mem.lkey() ^ 1});
    bad.to(ah_.get(), pair_.b.qp->qp_num, kQkey);
    ASSERT_EQ(bad.post(pair_.a.qp), 0);
    ASSERT_EQ(to_b(2, 8).post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(pair_.a.send_cq, {1}, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(next_are(pair_.a.send_cq, {2}, IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(state_of(pair_.a.qp), IBV_QPS_SQE);
    apply_all(pair_.a.qp.get(), {to_state(IBV_QPS_RTS)});
    expect_alive(3);
}

TEST_F(UdTest, OneQueuePairHearsAndReachesMany) {
    constexpr int kPeers = 4;
    std::vector<std::unique_ptr<Endpoint>> peers;
    for (int i = 0; i < kPeers; ++i) {
        peers.push_back(std::make_unique<Endpoint>(hca_, pd_.get(), ud()));
        bring_up(hca_, peers.back()->qp.get(), ud(), {});
        ASSERT_EQ(RecvWr(i).sge(pair_.a_mem.sge(4096 * i, 4096)).post(peers.back()->qp), 0);
    }
    for (int i = 0; i < kPeers; ++i) {
        receive(i);
        SendWr wr(IBV_WR_SEND, i);
        wr.to(ah_.get(), pair_.b.qp->qp_num, kQkey);
        ASSERT_EQ(wr.post(peers[i]->qp), 0);
        EXPECT_EQ(poll_one(pair_.b.recv_cq).src_qp, peers[i]->qp->qp_num);
        SendWr back(IBV_WR_SEND, i);
        back.to(ah_.get(), peers[i]->qp->qp_num, kQkey);
        ASSERT_EQ(back.post(pair_.b.qp), 0);
        EXPECT_EQ(poll_one(peers[i]->recv_cq).src_qp, pair_.b.qp->qp_num);
    }
}

TEST_F(UdTest, SharedReceiveQueueServesDatagrams) {
    if (hca_.attr().max_srq == 0) GTEST_SKIP() << "no shared receive queues";
    Srq srq = make_srq(pd_.get());
    QpSpec spec = ud();
    spec.srq = srq.get();
    Endpoint end(hca_, pd_.get(), spec);
    bring_up(hca_, end.qp.get(), spec, {});
    ASSERT_EQ(RecvWr(1).sge(pair_.b_mem.sge()).post(srq), 0);
    pair_.a_mem.fill(6, 0, 99);
    SendWr wr(IBV_WR_SEND, 2);
    wr.sge(pair_.a_mem.sge(0, 99)).to(ah_.get(), end.qp->qp_num, kQkey);
    ASSERT_EQ(wr.post(pair_.a.qp), 0);
    EXPECT_TRUE(next_are(end.recv_cq, {1}));
    EXPECT_TRUE(pair_.b_mem.holds(6, kGrh, 99));
}

}  // namespace
}  // namespace conformance
