// SPDX-License-Identifier: BSD-3-Clause
// Ports that go down and come up.
#include "fabric.h"

namespace conformance::softhca {
namespace port_fault_test {

class PortFaultTest : public FabricTest {};

ibv_port_state state_of_port(const Hca& hca, uint8_t port) {
    ibv_port_attr attr;
    if (ibv_query_port(hca.get(), port, &attr)) fail("ibv_query_port");
    return attr.state;
}

SendWr write(const Pair& pair, uint64_t id) {
    SendWr wr(IBV_WR_RDMA_WRITE, id);
    wr.sge(pair.a_mem.sge(0, 1000)).remote(pair.b_mem);
    return wr;
}

TEST_F(PortFaultTest, PortsSayWhatHappensToThem) {
    set("PORTS", "2");
    set("DEVICES", "2");
    alone([] {
        Hca zero;
        const Hca one = open(1, 1);
        inject("port-down=softhca0:2");
        EXPECT_EQ(wait_event(zero, IBV_EVENT_PORT_ERR).element.port_num, 2);
        EXPECT_EQ(state_of_port(zero, 1), IBV_PORT_ACTIVE);
        EXPECT_EQ(state_of_port(zero, 2), IBV_PORT_DOWN);
        inject("port-up=softhca0:2");
        EXPECT_EQ(wait_event(zero, IBV_EVENT_PORT_ACTIVE).element.port_num, 2);
        EXPECT_EQ(state_of_port(zero, 2), IBV_PORT_ACTIVE);
        EXPECT_TRUE(no_event(one, IBV_EVENT_PORT_ERR)) << "another device";
        inject("port-down");
        for (const Hca* hca : {static_cast<const Hca*>(&zero), &one}) {
            EXPECT_EQ(wait_event(*hca, IBV_EVENT_PORT_ERR).element.port_num, 1);
            EXPECT_EQ(wait_event(*hca, IBV_EVENT_PORT_ERR).element.port_num, 2);
            EXPECT_EQ(state_of_port(*hca, 1), IBV_PORT_DOWN);
        }
    });
}

TEST_F(PortFaultTest, TrafficOfADownPortEndsInRetryError) {
    set("PORTS", "2");
    alone([] {
        const Hca two = open(0, 2);
        const Hca one = open(0, 1);
        Pd pd = one.make_pd();
        Pd pd_two = two.make_pd();
        Pair healthy(one, pd.get(), quick());
        Pair broken(two, pd_two.get(), quick());
        inject("port-down=softhca0:2");
        ASSERT_EQ(write(broken, 1).post(broken.a.qp), 0);
        ASSERT_EQ(write(broken, 2).post(broken.a.qp), 0);
        ASSERT_EQ(write(healthy, 3).post(healthy.a.qp), 0);
        EXPECT_TRUE(next_are(healthy.a.send_cq, {3}));
        EXPECT_TRUE(next_are(broken.a.send_cq, {1}, IBV_WC_RETRY_EXC_ERR));
        EXPECT_TRUE(next_are(broken.a.send_cq, {2}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_EQ(state_of(broken.b.qp), IBV_QPS_RTS);
    });
}

TEST_F(PortFaultTest, DownPortOfThePeerCountsToo) {
    set("DEVICES", "2");
    alone([] {
        const Hca one = open(1, 1);
        const Hca zero = open(0, 1);
        Pd pd = zero.make_pd();
        Pd pd_one = one.make_pd();
        Region memory(pd.get(), 4096);
        Region window(pd_one.get(), 4096);
        Endpoint here(zero, pd.get(), quick());
        Endpoint there(one, pd_one.get(), quick());
        bring_up(one, there.qp.get(), quick(), as_peer(zero, here.qp.get(), quick()));
        bring_up(zero, here.qp.get(), quick(), as_peer(one, there.qp.get(), quick()));
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).sge(memory.sge()).remote(window).post(here.qp), 0);
        ASSERT_TRUE(next_are(here.send_cq, {1}));
        inject("port-down=softhca1:1");
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2).sge(memory.sge()).remote(window).post(here.qp), 0);
        EXPECT_TRUE(next_are(here.send_cq, {2}, IBV_WC_RETRY_EXC_ERR));
    });
}

TEST_F(PortFaultTest, TrafficGoesOnWhenThePortIsBackInTime) {
    alone([] {
        QpSpec spec;
        spec.retries = 6;  // of 67 ms each
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), spec);
        for (uint64_t round = 0; round < 3; ++round) {
            pair.a_mem.fill(static_cast<unsigned>(round));
            inject("port-down");
            ASSERT_EQ(write(pair, round).post(pair.a.qp), 0);
            EXPECT_TRUE(quiet(pair.a.send_cq));
            inject("port-up");
            EXPECT_TRUE(next_are(pair.a.send_cq, {round}));
            EXPECT_TRUE(pair.b_mem.holds(static_cast<unsigned>(round), 0, 1000));
        }
        EXPECT_EQ(sum(status(), "errors"), 0u);
    });
}

TEST_F(PortFaultTest, TimeoutZeroWaitsForThePort) {
    alone([] {
        QpSpec spec;
        spec.timeout = 0;
        spec.retries = 0;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), spec);
        inject("port-down");
        ASSERT_EQ(write(pair, 1).post(pair.a.qp), 0);
        EXPECT_TRUE(quiet(pair.a.send_cq));
        inject("port-up");
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    });
}

TEST_F(PortFaultTest, DatagramsOfADownPortAreLost) {
    alone([] {
        QpSpec spec;
        spec.type = IBV_QPT_UD;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), spec);
        Ah ah = hca.make_ah(pd.get(), hca.address());
        auto send = [&](uint64_t id) {
            return SendWr(IBV_WR_SEND_WITH_IMM, id)
                .imm(static_cast<uint32_t>(id))
                .sge(pair.a_mem.sge(0, 100))
                .to(ah.get(), pair.b.qp->qp_num, kQkey)
                .post(pair.a.qp);
        };
        ASSERT_EQ(RecvWr(9).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
        inject("port-down");
        ASSERT_EQ(send(1), 0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1})) << "nobody tells";
        inject("port-up");
        ASSERT_EQ(send(2), 0);
        const ibv_wc wc = poll_one(pair.b.recv_cq);
        EXPECT_TRUE(is_done(wc, 9));
        EXPECT_EQ(be32toh(wc.imm_data), 2u);
    });
}

}  // namespace port_fault_test
}  // namespace conformance::softhca
