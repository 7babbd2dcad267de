// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: capacity, order, resizing, overflow.
#include <cerrno>
#include <climits>
#include <numeric>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

// Two connected queue pairs. The completions of a's sends and b's receives go to queues that the
// test makes.
class CqTest : public VerbsTest {
  protected:
    void use(Cq cq, uint32_t depth = 64) {
        cq_ = std::move(cq);
        QpSpec spec;
        spec.send_wr = spec.recv_wr = depth;
        a_ = make_qp(pd_.get(), spec, cq_.get(), other_cq_.get());
        b_ = make_qp(pd_.get(), spec, other_cq_.get(), other_cq_.get());
        connect(hca_, a_, b_, spec);
    }

    // Posts `count` empty writes, each signalled, with ids from `first`.
    void complete(uint64_t first, int count) {
        for (int i = 0; i < count; ++i)
            if (int rc = SendWr(IBV_WR_RDMA_WRITE, first + i).post(a_))
                fail("post_send: " + std::to_string(rc));
    }

    // Waits until all work requests posted before have completed, by a later message; does not poll
    // cq_.
    void settle() {
        ASSERT_EQ(RecvWr(1).post(b_), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 0).flags(0).post(a_), 0);
        ASSERT_TRUE(next_are(other_cq_, {1}));
    }

    static std::vector<uint64_t> range(uint64_t first, int count) {
        std::vector<uint64_t> ids(count);
        std::iota(ids.begin(), ids.end(), first);
        return ids;
    }

    Cq cq_;
    Cq other_cq_ = hca_.make_cq();
    Qp a_;
    Qp b_;
};

TEST_F(CqTest, HoldsAtLeastWhatWasAskedFor) {
    for (int entries : {1, 2, 3, 100, 256}) {
        Cq cq = hca_.make_cq(entries);
        EXPECT_GE(cq->cqe, entries);
        EXPECT_EQ(cq->context, hca_.get());
        EXPECT_EQ(cq->channel, nullptr);
    }
}

TEST_F(CqTest, LargestSizeIsUsable) {
    Cq cq(ibv_create_cq(hca_.get(), hca_.attr().max_cqe, nullptr, nullptr, 0));
    ASSERT_NE(cq, nullptr) << "max_cqe " << hca_.attr().max_cqe;
    EXPECT_GE(cq->cqe, hca_.attr().max_cqe);
}

TEST_F(CqTest, BadSizesAreRefused) {
    std::vector<int> sizes{0, -1};
    if (hca_.attr().max_cqe < INT_MAX) sizes.push_back(hca_.attr().max_cqe + 1);
    for (int size : sizes) {
        errno = 0;
        Cq cq(ibv_create_cq(hca_.get(), size, nullptr, nullptr, 0));
        EXPECT_EQ(cq, nullptr) << size;
        EXPECT_NE(errno, 0) << size;
    }
}

TEST_F(CqTest, BadCompletionVectorsAreRefused) {
    Channel channel = hca_.make_channel();
    for (int vector : {-1, hca_.get()->num_comp_vectors}) {
        errno = 0;
        Cq cq(ibv_create_cq(hca_.get(), 4, nullptr, channel.get(), vector));
        EXPECT_EQ(cq, nullptr) << vector;
        EXPECT_NE(errno, 0) << vector;
    }
}

TEST_F(CqTest, EmptyQueuePollsNothing) {
    Cq cq = hca_.make_cq();
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
    EXPECT_EQ(ibv_poll_cq(cq.get(), 0, &wc), 0);
}

TEST_F(CqTest, PollGivesNoMoreThanAskedAndKeepsOrder) {
    use(hca_.make_cq());
    complete(100, 10);
    settle();
    ibv_wc wc[16];
    EXPECT_EQ(ibv_poll_cq(cq_.get(), 0, wc), 0);
    ASSERT_EQ(ibv_poll_cq(cq_.get(), 3, wc), 3);
    EXPECT_EQ(wc[0].wr_id, 100u);
    EXPECT_EQ(wc[2].wr_id, 102u);
    ASSERT_EQ(ibv_poll_cq(cq_.get(), 16, wc), 7);
    EXPECT_EQ(wc[0].wr_id, 103u);
    EXPECT_EQ(wc[6].wr_id, 109u);
    EXPECT_EQ(ibv_poll_cq(cq_.get(), 16, wc), 0);
}

TEST_F(CqTest, WrapsAroundManyTimes) {
    use(hca_.make_cq(5), 5);
    uint64_t id = 0;
    for (int round = 0; round < 500; ++round) {
        const int count = 1 + round % 5;
        complete(id, count);
        ASSERT_TRUE(next_are(cq_, range(id, count))) << "round " << round;
        id += count;
    }
}

TEST_F(CqTest, CompletionsNameTheirQueuePair) {
    use(hca_.make_cq());
    Qp c = make_qp(pd_.get(), {}, cq_.get(), other_cq_.get());
    Qp d = make_qp(pd_.get(), {}, other_cq_.get(), other_cq_.get());
    connect(hca_, c, d);
    for (int i = 0; i < 8; ++i) {
        const Qp& qp = i % 2 ? c : a_;
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i).post(qp), 0);
        const ibv_wc wc = poll_one(cq_);
        EXPECT_TRUE(is_done(wc, i));
        EXPECT_EQ(wc.qp_num, qp->qp_num);
        EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
    }
}

TEST_F(CqTest, IsBusyWhileAQueuePairUsesIt) {
    use(hca_.make_cq());
    EXPECT_EQ(ibv_destroy_cq(cq_.get()), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(other_cq_.get()), EBUSY);
    complete(1, 1);
    EXPECT_TRUE(next_are(cq_, {1}));
    a_.reset();
    b_.reset();
}

TEST_F(CqTest, OutlivesAQueuePairThatStillHadCompletionsInIt) {
    use(hca_.make_cq());
    Qp c = make_qp(pd_.get(), {}, cq_.get(), other_cq_.get());
    Qp d = make_qp(pd_.get(), {}, other_cq_.get(), other_cq_.get());
    connect(hca_, c, d);
    complete(1, 3);
    for (uint64_t i = 100; i < 110; ++i) ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i).post(c), 0);
    c.reset();
    complete(4, 3);
    // The completions of the destroyed queue pair may be missing; those of the other must be there.
    std::vector<uint64_t> living;
    while (living.size() < 6) {
        const ibv_wc wc = poll_one(cq_);
        if (wc.wr_id < 100) living.push_back(wc.wr_id);
    }
    EXPECT_EQ(living, range(1, 6));
}

class CqResizeTest : public CqTest {
  protected:
    // False: the device cannot resize.
    bool resize(int entries) {
        const int rc = ibv_resize_cq(cq_.get(), entries);
        if (is_unsupported(rc) || (rc == -1 && is_unsupported(errno))) return false;
        if (rc) fail("ibv_resize_cq: " + std::to_string(rc));
        return true;
    }
};

TEST_F(CqResizeTest, KeepsWhatIsInTheQueueInOrder) {
    use(hca_.make_cq(20), 256);
    complete(1, 7);
    ASSERT_TRUE(next_are(cq_, range(1, 7)));
    complete(100, 12);
    settle();
    if (!resize(200)) GTEST_SKIP() << "no ibv_resize_cq";
    EXPECT_GE(cq_->cqe, 200);
    EXPECT_TRUE(next_are(cq_, range(100, 12)));
    for (int id = 0; id < 180; id += 60) {
        complete(1000 + id, 60);
        settle();
    }
    EXPECT_TRUE(next_are(cq_, range(1000, 180)));
}

TEST_F(CqResizeTest, ShrinksToWhatIsStillNeeded) {
    use(hca_.make_cq(200));
    complete(1, 10);
    settle();
    if (!resize(10)) GTEST_SKIP() << "no ibv_resize_cq";
    EXPECT_GE(cq_->cqe, 10);
    EXPECT_TRUE(next_are(cq_, range(1, 10)));
    for (int round = 0; round < 20; ++round) {
        complete(100, 9);
        ASSERT_TRUE(next_are(cq_, range(100, 9)));
    }
}

TEST_F(CqResizeTest, TooSmallForWhatIsInItIsRefused) {
    use(hca_.make_cq(200), 256);
    if (!resize(200)) GTEST_SKIP() << "no ibv_resize_cq";
    for (int id = 0; id < 150; id += 50) {
        complete(id, 50);
        settle();
    }
    const int before = cq_->cqe;
    EXPECT_NE(ibv_resize_cq(cq_.get(), 2), 0);
    EXPECT_NE(ibv_resize_cq(cq_.get(), 0), 0);
    if (hca_.attr().max_cqe < INT_MAX) {
        EXPECT_NE(ibv_resize_cq(cq_.get(), hca_.attr().max_cqe + 1), 0);
    }
    EXPECT_EQ(cq_->cqe, before);
    EXPECT_TRUE(next_are(cq_, range(0, 150)));
}

TEST_F(CqTest, OverflowIsReportedAsAnEventOfTheQueue) {
    Cq small = hca_.make_cq(4);
    const int room = small->cqe;
    if (room > hca_.attr().max_qp_wr / 2) GTEST_SKIP() << "the smallest queue is too large";
    use(std::move(small), 2 * room + 16);
    complete(0, room);
    settle();
    EXPECT_TRUE(no_event(hca_, IBV_EVENT_CQ_ERR)) << "full is not yet overflow";
    complete(room, 8);
    const ibv_async_event event = wait_event(hca_, IBV_EVENT_CQ_ERR);
    EXPECT_EQ(event.element.cq, cq_.get());
}

}  // namespace
}  // namespace conformance
