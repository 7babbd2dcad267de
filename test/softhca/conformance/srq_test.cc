// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues: limits, sharing, the limit event, resizing.
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

class SrqTest : public VerbsTest {
  protected:
    void SetUp() override {
        if (hca_.attr().max_srq == 0) GTEST_SKIP() << "no shared receive queues";
    }

    static QpSpec attached(const Srq& srq) {
        QpSpec spec;
        spec.srq = srq.get();
        return spec;
    }

    static uint32_t room(const Srq& srq) {
        ibv_srq_attr attr{};
        if (ibv_query_srq(srq.get(), &attr)) fail("ibv_query_srq");
        return attr.max_wr;
    }

    static int modify(const Srq& srq, uint32_t max_wr, uint32_t limit, int mask) {
        ibv_srq_attr attr{};
        attr.max_wr = max_wr;
        attr.srq_limit = limit;
        return ibv_modify_srq(srq.get(), &attr, mask);
    }
};

TEST_F(SrqTest, CreationRoundsUpAndQueryAgrees) {
    ibv_srq_init_attr init{};
    init.srq_context = &init;
    init.attr.max_wr = 33;
    init.attr.max_sge = 2;
    Srq srq(ibv_create_srq(pd_.get(), &init));
    ASSERT_NE(srq, nullptr);
    EXPECT_GE(init.attr.max_wr, 33u);
    EXPECT_GE(init.attr.max_sge, 2u);
    EXPECT_EQ(srq->srq_context, &init);
    EXPECT_EQ(srq->pd, pd_.get());
    ibv_srq_attr attr{};
    ASSERT_EQ(ibv_query_srq(srq.get(), &attr), 0);
    EXPECT_GE(attr.max_wr, init.attr.max_wr);
    EXPECT_GE(attr.max_sge, init.attr.max_sge);
    EXPECT_EQ(attr.srq_limit, 0u);
}

TEST_F(SrqTest, SizesBeyondTheLimitsAreRefused) {
    for (auto [wr, sge] :
         {std::pair<int, int>{hca_.attr().max_srq_wr + 1, 1}, {1, hca_.attr().max_srq_sge + 1}}) {
        ibv_srq_init_attr init{};
        init.attr.max_wr = static_cast<uint32_t>(wr);
        init.attr.max_sge = static_cast<uint32_t>(sge);
        errno = 0;
        Srq srq(ibv_create_srq(pd_.get(), &init));
        EXPECT_EQ(srq, nullptr) << wr << " requests of " << sge << " elements";
        EXPECT_NE(errno, 0);
    }
}

TEST_F(SrqTest, IsBusyWhileAQueuePairUsesIt) {
    Srq srq = make_srq(pd_.get());
    Endpoint end(hca_, pd_.get(), attached(srq));
    EXPECT_EQ(end.qp->srq, srq.get());
    EXPECT_EQ(ibv_destroy_srq(srq.get()), EBUSY);
}

TEST_F(SrqTest, QueuePairWithOneTakesNoReceivesOfItsOwn) {
    Srq srq = make_srq(pd_.get());
    Pair pair(hca_, pd_.get(), {}, attached(srq));
    EXPECT_NE(RecvWr(1).post(pair.b.qp), 0);
}

TEST_F(SrqTest, TooManyReceivesAreRefusedAtTheRightRequest) {
    Srq srq = make_srq(pd_.get(), 8, 1);
    const uint32_t size = room(srq);
    std::vector<ibv_recv_wr> list(size + 3);
    for (std::size_t i = 0; i < list.size(); ++i) {
        list[i] = {};
        list[i].wr_id = i;
        list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    EXPECT_NE(ibv_post_srq_recv(srq.get(), list.data(), &bad), 0);
    EXPECT_EQ(bad, &list[size]);
}

TEST_F(SrqTest, TooManyElementsAreRefused) {
    Srq srq = make_srq(pd_.get(), 8, 2);
    ibv_srq_attr attr{};
    ASSERT_EQ(ibv_query_srq(srq.get(), &attr), 0);
    Region region(pd_.get(), 4096);
    EXPECT_NE(RecvWr(1).sges(std::vector<ibv_sge>(attr.max_sge + 1, region.sge(0, 8))).post(srq),
              0);
    EXPECT_EQ(RecvWr(1).sges(std::vector<ibv_sge>(attr.max_sge, region.sge(0, 8))).post(srq), 0);
}

TEST_F(SrqTest, SlotsComeBackForEver) {
    Srq srq = make_srq(pd_.get(), 8, 1);
    Pair pair(hca_, pd_.get(), {}, attached(srq));
    const uint32_t size = room(srq);
    for (uint32_t i = 0; i < size; ++i) ASSERT_EQ(RecvWr(i).post(srq), 0);
    for (uint32_t i = 0; i < 10 * size; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
        ASSERT_TRUE(next_are(pair.b.recv_cq, {i}));
        ASSERT_EQ(RecvWr(i + size).post(srq), 0) << i;
    }
}

TEST_F(SrqTest, FeedsSeveralQueuePairsInTheOrderOfArrival) {
    constexpr int kPairs = 4;
    Srq srq = make_srq(pd_.get(), 64, 1);
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int i = 0; i < kPairs; ++i)
        pairs.push_back(std::make_unique<Pair>(hca_, pd_.get(), QpSpec{}, attached(srq)));
    Region inbox(pd_.get(), 4096);
    for (int i = 0; i < 32; ++i) ASSERT_EQ(RecvWr(i).sge(inbox.sge(i * 64, 64)).post(srq), 0);
    for (int i = 0; i < 32; ++i) {
        Pair& pair = *pairs[i * 7 % kPairs];
        pair.a_mem.fill(i, 0, 64);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 1).sge(pair.a_mem.sge(0, 64)).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        const ibv_wc wc = poll_one(pair.b.recv_cq);
        EXPECT_TRUE(is_done(wc, i));
        EXPECT_EQ(wc.qp_num, pair.b.qp->qp_num);
        EXPECT_TRUE(inbox.holds(i, i * 64, 64));
    }
}

TEST_F(SrqTest, LimitEventComesOnceWhenTheQueueRunsLow) {
    Srq srq = make_srq(pd_.get(), 16, 1);
    Pair pair(hca_, pd_.get(), {}, attached(srq));
    for (int i = 0; i < 10; ++i) ASSERT_EQ(RecvWr(i).post(srq), 0);
    ASSERT_EQ(modify(srq, 0, 5, IBV_SRQ_LIMIT), 0);
    ibv_srq_attr attr{};
    ASSERT_EQ(ibv_query_srq(srq.get(), &attr), 0);
    EXPECT_EQ(attr.srq_limit, 5u);
    auto take = [&](int count) {
        for (int i = 0; i < count; ++i) {
            ASSERT_EQ(SendWr(IBV_WR_SEND).post(pair.a.qp), 0);
            poll_one(pair.a.send_cq);
            poll_one(pair.b.recv_cq);
        }
    };
    take(5);
    EXPECT_TRUE(no_event(hca_, IBV_EVENT_SRQ_LIMIT_REACHED)) << "five are left";
    take(1);
    EXPECT_EQ(wait_event(hca_, IBV_EVENT_SRQ_LIMIT_REACHED).element.srq, srq.get());
    ASSERT_EQ(ibv_query_srq(srq.get(), &attr), 0);
    EXPECT_EQ(attr.srq_limit, 0u) << "disarmed by firing";
    take(2);
    EXPECT_TRUE(no_event(hca_, IBV_EVENT_SRQ_LIMIT_REACHED));
}

TEST_F(SrqTest, LimitBeyondTheSizeIsRefused) {
    Srq srq = make_srq(pd_.get(), 16, 1);
    EXPECT_NE(modify(srq, 0, room(srq) + 1, IBV_SRQ_LIMIT), 0);
}

TEST_F(SrqTest, ResizingKeepsWhatIsPosted) {
    if (!hca_.has(IBV_DEVICE_SRQ_RESIZE)) GTEST_SKIP() << "no IBV_DEVICE_SRQ_RESIZE";
    Srq srq = make_srq(pd_.get(), 8, 1);
    Pair pair(hca_, pd_.get(), {}, attached(srq));
    const uint32_t before = room(srq);
    for (uint32_t i = 0; i < before; ++i)
        ASSERT_EQ(RecvWr(i).sge(pair.b_mem.sge(i * 8, 8)).post(srq), 0);
    ASSERT_EQ(modify(srq, 4 * before, 0, IBV_SRQ_MAX_WR), 0);
    const uint32_t after = room(srq);
    EXPECT_GE(after, 4 * before);
    for (uint32_t i = before; i < after; ++i)
        ASSERT_EQ(RecvWr(i).sge(pair.b_mem.sge(i * 8, 8)).post(srq), 0);
    EXPECT_NE(modify(srq, 1, 0, IBV_SRQ_MAX_WR), 0) << "too small for what is posted";
    for (uint32_t i = 0; i < after; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_SEND).post(pair.a.qp), 0);
        poll_one(pair.a.send_cq);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {i}));
    }
}

TEST_F(SrqTest, ReceivesOutliveTheErrorOfAQueuePair) {
    Srq srq = make_srq(pd_.get(), 8, 1);
    Pair first(hca_, pd_.get(), {}, attached(srq));
    Pair second(hca_, pd_.get(), {}, attached(srq));
    ASSERT_EQ(RecvWr(1).post(srq), 0);
    apply_all(first.b.qp.get(), {to_state(IBV_QPS_ERR)});
    EXPECT_TRUE(quiet(first.b.recv_cq)) << "receives of a shared queue are not flushed";
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(second.a.qp), 0);
    EXPECT_TRUE(next_are(second.b.recv_cq, {1}));
    EXPECT_TRUE(next_are(second.a.send_cq, {2}));
}

TEST_F(SrqTest, MessageForAnEmptyQueueWaitsForAReceive) {
    Srq srq = make_srq(pd_.get(), 8, 1);
    Pair pair(hca_, pd_.get(), {}, attached(srq));
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(pair.a.qp), 0);
    EXPECT_TRUE(quiet(pair.a.send_cq));
    ASSERT_EQ(RecvWr(2).post(srq), 0);
    EXPECT_TRUE(next_are(pair.b.recv_cq, {2}));
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
}

TEST_F(SrqTest, BasicQueueHasNoNumberOrOneOfItsOwn) {
    Srq first = make_srq(pd_.get());
    Srq second = make_srq(pd_.get());
    uint32_t number[2]{};
    if (ibv_get_srq_num(first.get(), &number[0])) GTEST_SKIP() << "basic queues have no number";
    ASSERT_EQ(ibv_get_srq_num(second.get(), &number[1]), 0);
    if (number[0] != 0) {
        EXPECT_NE(number[0], number[1]);
    }
}

}  // namespace
}  // namespace conformance
