// SPDX-License-Identifier: BSD-3-Clause
// Faults of on-demand paging: when the device has to fault pages in, what the responder answers,
// and what it costs.
#include <sys/mman.h>

#include "../conformance/xrc.h"
#include "virtual_fabric.h"

namespace conformance::softhca::paging {
namespace {

constexpr int kFaultMs = 20;
constexpr std::size_t kBytes = 1 << 16;
constexpr int kPaged = kAllAccess | IBV_ACCESS_ON_DEMAND;

struct Setting {
    const char* name;
    const char* executor;
    const char* profile;
};

std::ostream& operator<<(std::ostream& out, const Setting& setting) {
    return out << setting.name;
}

class PagingTest : public FabricTest, public testing::WithParamInterface<Setting> {
  protected:
    void SetUp() override {
        FabricTest::SetUp();
        set("EXECUTOR", GetParam().executor);
        set("PROFILE", GetParam().profile);
        set("RULES", "odp=1,odp-faults=" + std::to_string(kFaultMs * 1000));
    }

    static uint64_t refusals() { return sum(status(), "rnr_naks"); }

    // Runs `body` with a connection whose requester makes `rnr_retry` retries.
    static void with_pair(uint8_t rnr_retry,
                          const std::function<void(ibv_pd* pd, Pair& pair)>& body) {
        alone([&] {
            const Hca hca;
            const Pd pd = hca.make_pd();
            QpSpec spec;
            spec.rnr_retry = rnr_retry;
            Pair pair(hca, pd.get(), spec);
            body(pd.get(), pair);
        });
    }
};

ibv_wc_status run(const Pair& pair, ibv_wr_opcode opcode, ibv_sge local, const Region& remote,
                  std::size_t offset = 0) {
    if (SendWr(opcode, 1).sge(local).remote(remote, offset).post(pair.a.qp) != 0) fail("post");
    return poll_one(pair.a.send_cq).status;
}

// Each first access to a page is refused once, and takes the time of a fault; the next one is not.
TEST_P(PagingTest, FirstAccessToAPageOfTheResponderIsRefusedOnce) {
    with_pair(7, [](ibv_pd* pd, Pair& pair) {
        const Region to(pd, kBytes, kPaged);
        uint64_t count = 0;
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            for (const std::size_t offset : {std::size_t{0}, std::size_t{4000}}) {
                const std::size_t at = (opcode == IBV_WR_RDMA_READ ? kBytes / 2 : 0) + offset;
                const Stopwatch watch;
                EXPECT_EQ(run(pair, opcode, pair.a_mem.sge(0, 200), to, at), IBV_WC_SUCCESS);
                EXPECT_GE(watch.elapsed().count(), kFaultMs);
                EXPECT_EQ(refusals(), ++count);
                EXPECT_EQ(run(pair, opcode, pair.a_mem.sge(0, 200), to, at), IBV_WC_SUCCESS);
                EXPECT_EQ(refusals(), count);
            }
        }
    });
}

TEST_P(PagingTest, ReceivesFaultToo) {
    with_pair(7, [](ibv_pd* pd, Pair& pair) {
        const Region to(pd, kBytes, kPaged);
        for (uint64_t i = 0; i < 2; ++i) {
            ASSERT_EQ(RecvWr(2).sge(to.sge(0, 64)).post(pair.b.qp), 0);
            ASSERT_EQ(SendWr(IBV_WR_SEND, 1).sge(pair.a_mem.sge(0, 64)).post(pair.a.qp), 0);
            EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
            EXPECT_TRUE(next_are(pair.b.recv_cq, {2}));
            EXPECT_EQ(refusals(), 1u);
        }
    });
}

// With no RNR retry, a fault is an error like a missing receive.
TEST_P(PagingTest, WithoutRetriesAFaultEndsTheConnection) {
    with_pair(0, [](ibv_pd* pd, Pair& pair) {
        const Region to(pd, kBytes, kPaged);
        EXPECT_EQ(run(pair, IBV_WR_RDMA_WRITE, pair.a_mem.sge(0, 64), to),
                  IBV_WC_RNR_RETRY_EXC_ERR);
        EXPECT_EQ(state_of(pair.b.qp), IBV_QPS_RTS);
    });
}

TEST_P(PagingTest, PagesThatTheProcessLosesFaultAgain) {
    with_pair(7, [](ibv_pd* pd, Pair& pair) {
        const Region to(pd, kBytes, kPaged);
        uint64_t count = 0;
        const auto faults = [&] {
            EXPECT_EQ(run(pair, IBV_WR_RDMA_WRITE, pair.a_mem.sge(0, 64), to), IBV_WC_SUCCESS);
            return refusals() - count;
        };
        EXPECT_EQ(faults(), 1u);
        count = refusals();
        EXPECT_EQ(faults(), 0u);
        ASSERT_EQ(madvise(to.data(), kBytes, MADV_DONTNEED), 0);
        EXPECT_EQ(faults(), 1u);
        count = refusals();
        ASSERT_EQ(mmap(to.data(), kBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  to.data());
        EXPECT_EQ(faults(), 1u);
    });
}

// A device may page for RC and not for XRC, and says so.
TEST_P(PagingTest, NotForEachTransport) {
    for (const int rule : {1, 2}) {
        set("RULES", "odp=" + std::to_string(rule));
        alone([rule] {
            const Hca hca;
            ibv_device_attr_ex all{};
            ASSERT_EQ(ibv_query_device_ex(hca.get(), nullptr, &all), 0);
            EXPECT_NE(all.odp_caps.per_transport_caps.rc_odp_caps, 0u);
            EXPECT_EQ(all.xrc_odp_caps != 0, rule == 1);
            const Pd pd = hca.make_pd();
            const Region pinned(pd.get(), kBytes), on_demand(pd.get(), kBytes, kPaged);
            Pair pair(hca, pd.get(), {});
            EXPECT_EQ(run(pair, IBV_WR_RDMA_WRITE, on_demand.sge(0, 64), on_demand, 4096),
                      IBV_WC_SUCCESS);
            const Xrcd domain = open_xrcd(hca);
            const Cq sent = hca.make_cq(16), received = hca.make_cq(16);
            const auto sends = [&](const Region& from, const Region& to) {
                const Qp sender = make_xrc_sender(hca, pd.get(), sent.get(), {});
                const Qp receiver = make_xrc_receiver(hca, domain.get());
                connect_xrc(hca, sender, receiver);
                const Srq queue = make_xrc_srq(hca, pd.get(), domain.get(), received.get());
                if (RecvWr(1).sge(to.sge(0, 64)).post(queue) != 0) fail("the receive is refused");
                SendWr wr(IBV_WR_SEND, 2);
                if (wr.sge(from.sge(0, 64)).srqn(srq_number(queue)).post(sender) != 0)
                    fail("the post is refused");
                return poll_one(sent).status;
            };
            EXPECT_EQ(sends(pinned, pinned), IBV_WC_SUCCESS);
            EXPECT_EQ(sends(pinned, on_demand), rule == 1 ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
            EXPECT_EQ(sends(on_demand, pinned), rule == 1 ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
        });
    }
}

// A new registration of the same memory, even with the same key, has no pages yet.
TEST_P(PagingTest, EachRegistrationFaults) {
    set("RULES", "odp=1,odp-faults=1000,keys=2");
    with_pair(7, [](ibv_pd* pd, Pair& pair) {
        const Region memory(pd, kBytes);
        for (uint64_t i = 1; i <= 3; ++i) {
            const Mr mr(ibv_reg_mr(pd, memory.data(), kBytes, kPaged));
            ASSERT_NE(mr, nullptr);
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                          .sge(pair.a_mem.sge(0, 64))
                          .remote(memory.addr(), mr->rkey)
                          .post(pair.a.qp),
                      0);
            EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
            EXPECT_EQ(refusals(), i);
        }
    });
}

// The requester waits for its own pages; the responder has refused nothing.
TEST_P(PagingTest, LocalPagesTakeTime) {
    with_pair(0, [](ibv_pd* pd, Pair& pair) {
        const Region mine(pd, kBytes, kPaged);
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            const std::size_t at = opcode == IBV_WR_RDMA_READ ? kBytes / 2 : 0;
            mine.fill(5, at, 64);
            const Stopwatch watch;
            EXPECT_EQ(run(pair, opcode, mine.sge(at, 64), pair.b_mem), IBV_WC_SUCCESS);
            EXPECT_GE(watch.elapsed().count(), kFaultMs);
        }
        EXPECT_EQ(refusals(), 0u);
        EXPECT_TRUE(pair.b_mem.holds(5, 0, 64));
    });
}

// A long message has more pages than the device's table; it faults once.
TEST_P(PagingTest, LongMessagesGetOn) {
    with_pair(7, [](ibv_pd* pd, Pair& pair) {
        constexpr std::size_t kLong = std::size_t{80} << 20;
        const Region from(pd, kLong), to(pd, kLong, kPaged);
        from.fill(6, kLong - 100, 100);
        EXPECT_EQ(run(pair, IBV_WR_RDMA_WRITE, from.sge(), to), IBV_WC_SUCCESS);
        EXPECT_TRUE(to.holds(6, kLong - 100, 100));
        EXPECT_EQ(refusals(), 1u);
    });
}

INSTANTIATE_TEST_SUITE_P(Settings, PagingTest,
                         testing::Values(Setting{"inline", "inline", "ideal"},
                                         Setting{"thread", "thread", "ideal"},
                                         Setting{"modeled", "inline", "cx5-edr"}),
                         [](const auto& test) { return test.param.name; });

// The sender waits out a fault of a receive that its queue pair has claimed. Meanwhile the shared
// queue goes, and a new one gets its number: the message must have one of that queue's receives.
class ClaimTest : public virtual_time_test::VirtualTimeTest {
  protected:
    static constexpr uint64_t kFault = kFaultMs * 1'000'000ull;

    void SetUp() override {
        VirtualTimeTest::SetUp();
        set("RULES", "qp-numbers=1,odp=1,odp-faults=" + std::to_string(kFaultMs * 1000));
    }
    static void run(uint64_t time) {
        virtual_time_test::run(time);
        virtual_time_test::clock().now = time;
    }
};

TEST_F(ClaimTest, EndsWithItsSharedQueueThoughANewOneHasItsNumber) {
    alone([] {
        virtual_time_test::Member node(0);
        const Xrcd domain = open_xrcd(node.hca);
        const Cq sent = node.hca.make_cq(16), received = node.hca.make_cq(16);
        const Qp sender = make_xrc_sender(node.hca, node.pd.get(), sent.get(), {});
        const Qp receiver = make_xrc_receiver(node.hca, domain.get());
        connect_xrc(node.hca, sender, receiver);
        const auto make_queue = [&] {
            return make_xrc_srq(node.hca, node.pd.get(), domain.get(), received.get());
        };
        const Region paged(node.pd.get(), kBytes, kPaged);
        Srq queue = make_queue();
        const uint32_t number = srq_number(queue);
        const auto send = [&](uint64_t id) {
            SendWr wr(IBV_WR_SEND, id);
            return wr.sge(node.memory.sge(0, 64)).srqn(number).post(sender);
        };
        ASSERT_EQ(RecvWr(1).sge(paged.sge(0, 64)).post(queue), 0);
        ASSERT_EQ(send(2), 0);
        const uint64_t refused = virtual_time_test::clock().now + kFault / 2;
        run(refused);
        queue.reset();
        queue = make_queue();
        ASSERT_EQ(srq_number(queue), number);
        // The new queue has no receive yet.
        run(refused + kFault);
        EXPECT_EQ(virtual_time_test::polled(received), 0);
        EXPECT_EQ(virtual_time_test::polled(sent), 0);
        for (const uint64_t id : {3, 4})
            ASSERT_EQ(RecvWr(id).sge(node.memory.sge(1024, 64)).post(queue), 0);
        ASSERT_EQ(send(5), 0);
        run(refused + 3 * kFault);
        EXPECT_TRUE(next_are(received, {3, 4}));
        EXPECT_TRUE(next_are(sent, {2, 5}));
    });
}

using NoPagingTest = FabricTest;

TEST_F(NoPagingTest, WithoutItARegionOnDemandIsRefused) {
    alone([] {
        const Hca hca;
        const Pd pd = hca.make_pd();
        const Region memory(pd.get(), kBytes);
        EXPECT_EQ(ibv_reg_mr(pd.get(), memory.data(), kBytes, kPaged), nullptr);
        EXPECT_EQ(errno, EOPNOTSUPP);
        ibv_device_attr_ex all{};
        ASSERT_EQ(ibv_query_device_ex(hca.get(), nullptr, &all), 0);
        EXPECT_EQ(all.odp_caps.general_caps, 0u);
    });
}

}  // namespace
}  // namespace conformance::softhca::paging
