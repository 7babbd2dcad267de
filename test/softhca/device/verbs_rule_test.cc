// SPDX-License-Identifier: BSD-3-Clause
// What drivers do and the specification leaves to them, as other people's tests of verbs expect it.
#include <cerrno>

#include "fabric.h"

namespace conformance::softhca::verbs_rule {
namespace {

class VerbsRuleTest : public FabricTest {};

// Drivers take the last 8 bits of the key, and tell the new key in the window.
TEST_F(VerbsRuleTest, BindOfType2TakesTheKeyPart) {
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Region memory(pd.get(), 4096, kAllAccess | IBV_ACCESS_MW_BIND);
        const Pair pair(hca, pd.get(), quick());
        const Mw window(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2));
        ASSERT_NE(window, nullptr);
        const uint32_t before = window->rkey;
        SendWr bind(IBV_WR_BIND_MW, 1);
        bind.raw().bind_mw.mw = window.get();
        bind.raw().bind_mw.rkey = 0xabcd00 | ((before + 5) & 0xff);
        bind.raw().bind_mw.bind_info = {memory.mr(), memory.addr(), 4096, kRemoteAccess};
        ASSERT_EQ(bind.post(pair.b.qp), 0);
        ASSERT_TRUE(next_are(pair.b.send_cq, {1}));
        EXPECT_EQ(window->rkey, (before & ~0xffu) | ((before + 5) & 0xff));
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2)
                      .sge(pair.a_mem.sge(0, 8))
                      .remote(memory.addr(), window->rkey)
                      .post(pair.a.qp),
                  0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {2}));
    });
}

// o10-37.2.40 of the specification: only windows of type 1 are unbound so.
TEST_F(VerbsRuleTest, BindOfNothingToAWindowOfType2Fails) {
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Region memory(pd.get(), 4096, kAllAccess | IBV_ACCESS_MW_BIND);
        const Endpoint end(hca, pd.get(), quick());
        bring_up(hca, end.qp.get(), end.spec, as_peer(hca, end.qp.get(), end.spec));
        const Mw window(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2));
        ASSERT_NE(window, nullptr);
        SendWr bind(IBV_WR_BIND_MW, 1);
        bind.raw().bind_mw.mw = window.get();
        bind.raw().bind_mw.rkey = ibv_inc_rkey(window->rkey);
        bind.raw().bind_mw.bind_info = {memory.mr(), memory.addr(), 0, kRemoteAccess};
        ASSERT_EQ(bind.post(end.qp), 0);
        EXPECT_TRUE(next_are(end.send_cq, {1}, IBV_WC_MW_BIND_ERR));
    });
}

// The keys of receives of a shared queue are of the queue's protection domain, also if the queue
// pair's is another one.
TEST_F(VerbsRuleTest, ReceivesOfASharedQueueAreOfItsDomain) {
    alone([] {
        const Hca hca;
        const Pd queue_pd = hca.make_pd();
        const Pd pd = hca.make_pd();
        const Srq srq = make_srq(queue_pd.get());
        const Region same(queue_pd.get(), 4096);
        const Region other(pd.get(), 4096);
        for (const Region* region : {&same, &other}) {
            const bool right = region == &same;
            for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UD}) {
                QpSpec spec = quick();
                spec.type = type;
                const Endpoint from(hca, pd.get(), spec);
                QpSpec shared = spec;
                shared.srq = srq.get();
                const Endpoint to(hca, pd.get(), shared);
                bring_up(hca, to.qp.get(), shared, as_peer(hca, from.qp.get(), spec));
                bring_up(hca, from.qp.get(), spec, as_peer(hca, to.qp.get(), shared));
                const Region data(pd.get(), 4096);
                const Ah ah = hca.make_ah(pd.get(), hca.address());
                ASSERT_EQ(RecvWr(1).sge(region->sge()).post(srq), 0);
                SendWr send(IBV_WR_SEND, 2);
                send.sge(data.sge(0, 8));
                if (type == IBV_QPT_UD) send.to(ah.get(), to.qp->qp_num, kQkey);
                ASSERT_EQ(send.post(from.qp), 0);
                const bool fails = !right && type == IBV_QPT_RC;
                EXPECT_TRUE(
                    next_are(from.send_cq, {2}, fails ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS));
                EXPECT_TRUE(
                    next_are(to.recv_cq, {1}, right ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR));
            }
        }
    });
}

// Calls that return an error set errno to it, too: programs print it.
TEST_F(VerbsRuleTest, RefusedCallsSetErrno) {
    alone([] {
        const Hca hca;
        const Channel channel = hca.make_channel();
        const Pd pd = hca.make_pd();
        const Cq cq = hca.make_cq(16, channel.get());
        const Srq srq = make_srq(pd.get());
        const Region memory(pd.get(), 4096);
        QpSpec spec;
        spec.srq = srq.get();
        const Endpoint end(hca, pd.get(), spec);
        const auto refused = [](int error, int wanted) {
            return error == wanted && errno == wanted;
        };
        errno = 0;
        EXPECT_TRUE(refused(ibv_dealloc_pd(pd.get()), EBUSY));
        errno = 0;
        EXPECT_TRUE(refused(ibv_destroy_srq(srq.get()), EBUSY));
        errno = 0;
        EXPECT_TRUE(refused(ibv_destroy_cq(end.send_cq.get()), EBUSY));
        errno = 0;
        EXPECT_TRUE(refused(ibv_destroy_comp_channel(channel.get()), EBUSY));
        errno = 0;
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTS;
        EXPECT_TRUE(refused(ibv_modify_qp(end.qp.get(), &attributes, IBV_QP_STATE), EINVAL));
    });
}

// Each vector has its events.
TEST_F(VerbsRuleTest, CompletionVectorsAreSeveral) {
    alone([] {
        const Hca hca;
        const int vectors = hca.get()->num_comp_vectors;
        ASSERT_GE(vectors, 2);
        for (int vector = 0; vector < vectors; ++vector) {
            const Channel channel = hca.make_channel();
            const Cq cq(ibv_create_cq(hca.get(), 16, nullptr, channel.get(), vector));
            ASSERT_NE(cq, nullptr);
            ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
            const Pd pd = hca.make_pd();
            ibv_qp_init_attr init{};
            init.send_cq = init.recv_cq = cq.get();
            init.cap = {4, 4, 1, 1, 0};
            init.qp_type = IBV_QPT_RC;
            const Qp qp(ibv_create_qp(pd.get(), &init));
            ASSERT_NE(qp, nullptr);
            const QpSpec spec = quick();
            bring_up(hca, qp.get(), spec, as_peer(hca, qp.get(), spec));
            ASSERT_EQ(RecvWr(1).post(qp), 0);
            ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(qp), 0);
            ibv_cq* from = nullptr;
            void* context = nullptr;
            ASSERT_EQ(ibv_get_cq_event(channel.get(), &from, &context), 0);
            EXPECT_EQ(from, cq.get());
            ibv_ack_cq_events(from, 1);
        }
    });
}

}  // namespace
}  // namespace conformance::softhca::verbs_rule
