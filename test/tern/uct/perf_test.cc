// SPDX-License-Identifier: BSD-3-Clause
// What the interface says that each operation costs.
#include <uct/api/v2/uct_v2.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "entity.h"

namespace uct_test {
namespace {

constexpr uint64_t kCosts =
    UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD | UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD |
    UCT_PERF_ATTR_FIELD_RECV_OVERHEAD | UCT_PERF_ATTR_FIELD_BANDWIDTH | UCT_PERF_ATTR_FIELD_LATENCY;

class TernPerf : public TernTest {
  protected:
    static uct_perf_attr_t ask(const Entity& entity, uct_ep_operation_t operation,
                               uint64_t fields = kCosts) {
        uct_perf_attr_t attributes{};
        attributes.field_mask = fields | UCT_PERF_ATTR_FIELD_OPERATION;
        attributes.operation = operation;
        EXPECT_STATUS(UCS_OK, uct_iface_estimate_perf(entity.iface(), &attributes));
        return attributes;
    }
    // Of one message, until it is received, without copies by UCP.
    static double time(const uct_perf_attr_t& costs, double length) {
        return costs.send_pre_overhead + costs.send_post_overhead + costs.latency.c +
               length / costs.bandwidth.shared + costs.recv_overhead;
    }
};

TEST_F(TernPerf, DefaultIsThatOfTheQuery) {
    Entity entity;
    const uct_iface_attr_t& query = entity.attr();
    for (const bool named : {false, true}) {
        uct_perf_attr_t costs{};
        costs.field_mask = named ? kCosts | UCT_PERF_ATTR_FIELD_OPERATION : kCosts;
        costs.operation = named ? UCT_EP_OP_LAST : UCT_EP_OP_AM_ZCOPY;
        ASSERT_STATUS(UCS_OK, uct_iface_estimate_perf(entity.iface(), &costs));
        EXPECT_EQ(query.overhead, costs.send_pre_overhead);
        EXPECT_EQ(0, costs.send_post_overhead);
        EXPECT_EQ(query.overhead, costs.recv_overhead);
        EXPECT_EQ(query.bandwidth.shared, costs.bandwidth.shared);
        EXPECT_EQ(query.bandwidth.dedicated, costs.bandwidth.dedicated);
        EXPECT_EQ(query.latency.c, costs.latency.c);
        EXPECT_EQ(query.latency.m, costs.latency.m);
    }
}

TEST_F(TernPerf, OnlyFieldsAskedForAreWritten) {
    Entity entity;
    for (int operation = 0; operation <= UCT_EP_OP_LAST; ++operation) {
        uct_perf_attr_t before;
        memset(&before, 0x5a, sizeof(before));
        before.field_mask = UCT_PERF_ATTR_FIELD_OPERATION;
        before.operation = static_cast<uct_ep_operation_t>(operation);
        uct_perf_attr_t after;
        memcpy(&after, &before, sizeof(after));
        ASSERT_STATUS(UCS_OK, uct_iface_estimate_perf(entity.iface(), &after));
        EXPECT_EQ(0, memcmp(&before, &after, sizeof(after))) << "operation " << operation;
        after.field_mask |= UCT_PERF_ATTR_FIELD_LATENCY;
        ASSERT_STATUS(UCS_OK, uct_iface_estimate_perf(entity.iface(), &after));
        EXPECT_NE(0, memcmp(&before.latency, &after.latency, sizeof(after.latency)));
        EXPECT_EQ(0, memcmp(&before.bandwidth, &after.bandwidth, sizeof(after.bandwidth)));
        EXPECT_EQ(0, memcmp(&before.recv_overhead, &after.recv_overhead, sizeof(double)));
    }
}

TEST_F(TernPerf, FramesAreOrdered) {
    Entity entity;
    for (const auto& [small, bcopy, zcopy] :
         {std::array{UCT_EP_OP_AM_SHORT, UCT_EP_OP_AM_BCOPY, UCT_EP_OP_AM_ZCOPY},
          std::array{UCT_EP_OP_EAGER_SHORT, UCT_EP_OP_EAGER_BCOPY, UCT_EP_OP_EAGER_ZCOPY}}) {
        const uct_perf_attr_t shortest = ask(entity, small);
        const uct_perf_attr_t copied = ask(entity, bcopy);
        const uct_perf_attr_t gathered = ask(entity, zcopy);
        EXPECT_LT(time(shortest, 8), time(copied, 8));
        EXPECT_EQ(shortest.latency.c, copied.latency.c);
        // UCP adds the copy to the one and not to the other. With a stream of messages, it takes
        // the longer of the copy and the wire.
        for (const double copy : {5e9, 7e9, 12e9}) {
            for (double length = 8; length <= 8192; length *= 1.25) {
                EXPECT_LT(time(copied, length) + length / copy, time(gathered, length));
                EXPECT_LE(std::max({copied.send_pre_overhead + length / copy,
                                    length / copied.bandwidth.shared,
                                    copied.recv_overhead + length / copy}),
                          std::max({gathered.send_pre_overhead + gathered.send_post_overhead,
                                    length / gathered.bandwidth.shared,
                                    gathered.recv_overhead + length / copy}))
                    << length << " bytes, copied with " << copy;
            }
        }
    }
}

// UCX 1.13 takes for long what exceeds the quotient of these two, by its older protocols: the time
// that a rendezvous takes more, and what each byte takes more in frames. A sender's time for a
// frame counts there, although frames overlap with the wire.
TEST_F(TernPerf, FramesOfASlowNetworkAreNotTakenForSlow) {
    Entity entity(Settings{{"RNDV_COSTS", "net=1.9GBps,net_latency=2.3us"}});
    constexpr double kMargin = 0.99;  // UCX_RNDV_PERF_DIFF
    const uct_perf_attr_t costs = ask(entity, UCT_EP_OP_AM_ZCOPY);
    const uct_iface_attr_t& query = entity.attr();
    const double wire = 1 / query.bandwidth.shared;
    const double frames = wire + (costs.send_pre_overhead + costs.send_post_overhead) /
                                     static_cast<double>(query.cap.am.max_bcopy);
    const double handshake = kMargin * (4 * query.latency.c + 3 * query.overhead) - query.overhead;
    EXPECT_GT(handshake / (frames - kMargin * wire), 500e3);
}

// UCP itself adds the second latency of gets and fetches.
TEST_F(TernPerf, OneSidedOperationsHaveTheLatencyThatUcpDoesNotAdd) {
    Entity entity;
    const double latency = entity.attr().latency.c;
    for (const uct_ep_operation_t operation :
         {UCT_EP_OP_PUT_SHORT, UCT_EP_OP_PUT_BCOPY, UCT_EP_OP_PUT_ZCOPY, UCT_EP_OP_GET_BCOPY,
          UCT_EP_OP_GET_ZCOPY, UCT_EP_OP_ATOMIC_POST, UCT_EP_OP_ATOMIC_FETCH})
        EXPECT_EQ(latency, ask(entity, operation).latency.c) << "operation " << operation;
    EXPECT_EQ(3 * latency, ask(entity, UCT_EP_OP_RNDV_ZCOPY).latency.c);
    const uct_perf_attr_t put = ask(entity, UCT_EP_OP_PUT_ZCOPY);
    const uct_perf_attr_t get = ask(entity, UCT_EP_OP_GET_ZCOPY);
    EXPECT_GT(time(put, 8), time(ask(entity, UCT_EP_OP_PUT_BCOPY), 8));
    EXPECT_EQ(entity.attr().bandwidth.shared, put.bandwidth.shared);
    EXPECT_EQ(entity.attr().bandwidth.shared, get.bandwidth.shared);
}

TEST_F(TernPerf, SettingsOfTheNetworkAreObeyed) {
    Entity entity(Settings{{"RNDV_COSTS", "net=3GBps,net_latency=4us"}});
    const double bandwidth = entity.attr().bandwidth.shared;
    EXPECT_NEAR(3e9, bandwidth, 0.3e9);
    EXPECT_NEAR(4e-6, entity.attr().latency.c, 1e-9);
    const double frames = ask(entity, UCT_EP_OP_AM_BCOPY).bandwidth.shared;
    EXPECT_LT(frames, bandwidth) << "gaps";
    EXPECT_GT(frames, 0.9 * bandwidth);
    EXPECT_EQ(bandwidth, ask(entity, UCT_EP_OP_GET_ZCOPY).bandwidth.shared);
    EXPECT_NEAR(4e-6, ask(entity, UCT_EP_OP_AM_BCOPY).latency.c, 1e-9);
    EXPECT_LT(ask(entity, UCT_EP_OP_AM_ZCOPY).bandwidth.shared, bandwidth);
}

}  // namespace
}  // namespace uct_test
