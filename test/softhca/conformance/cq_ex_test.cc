// SPDX-License-Identifier: BSD-3-Clause
// The extended completion queue: iterating over it, and reading the fields that were asked for.
#include <arpa/inet.h>
#include <sched.h>

#include <cerrno>

#include "qp.h"

namespace conformance {
namespace {

class CqExTest : public VerbsTest {
  protected:
    void SetUp() override {
        if (!create(IBV_WC_STANDARD_FLAGS)) GTEST_SKIP() << "no ibv_create_cq_ex";
        connect_to_it();
    }

    // False: the device has no extended completion queue.
    bool create(uint64_t wc_flags) {
        ibv_cq_init_attr_ex init{};
        init.cqe = 64;
        init.wc_flags = wc_flags;
        errno = 0;
        ex_ = ibv_create_cq_ex(hca_.get(), &init);
        if (!ex_ && !is_unsupported(errno) && errno != EINVAL) fail_errno("ibv_create_cq_ex");
        cq_.reset(ex_ ? ibv_cq_ex_to_cq(ex_) : nullptr);
        return ex_ != nullptr;
    }

    void connect_to_it() {
        a_ = make_qp(pd_.get(), {}, cq_.get(), cq_.get());
        b_ = make_qp(pd_.get(), {}, b_cq_.get(), b_cq_.get());
        connect(hca_, a_, b_);
    }

    // Starts an iteration, waiting for its first completion.
    int start() {
        ibv_poll_cq_attr attr{};
        const auto end = Clock::now() + deadline();
        int rc;
        while ((rc = ibv_start_poll(ex_, &attr)) == ENOENT) {
            if (Clock::now() > end) fail("nothing to poll within the deadline");
            sched_yield();
        }
        return rc;
    }

    // Waits until all work requests posted to a have completed.
    void settle() {
        ASSERT_EQ(RecvWr(1).post(b_), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND).flags(0).post(a_), 0);
        ASSERT_TRUE(next_are(b_cq_, {1}));
    }

    Region mem_{pd_.get(), 4096};
    ibv_cq_ex* ex_ = nullptr;
    Cq cq_;
    Cq b_cq_ = hca_.make_cq();
    Qp a_;
    Qp b_;
};

TEST_F(CqExTest, EmptyQueueSaysNoEntry) {
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(ex_, &attr), ENOENT);
    EXPECT_EQ(ibv_start_poll(ex_, &attr), ENOENT);
}

TEST_F(CqExTest, UnknownPollAttributesAreRefused) {
    ibv_poll_cq_attr attr{.comp_mask = 1};
    EXPECT_EQ(ibv_start_poll(ex_, &attr), EINVAL);
}

TEST_F(CqExTest, IteratesInOrderToTheEnd) {
    for (int i = 0; i < 5; ++i) ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 10 + i).post(a_), 0);
    settle();
    ASSERT_EQ(start(), 0);
    for (int i = 0; i < 5; ++i) {
        if (i > 0) {
            ASSERT_EQ(ibv_next_poll(ex_), 0);
        }
        EXPECT_EQ(ex_->wr_id, 10u + i);
        EXPECT_EQ(ex_->status, IBV_WC_SUCCESS);
        EXPECT_EQ(ibv_wc_read_opcode(ex_), IBV_WC_RDMA_WRITE);
        EXPECT_EQ(ibv_wc_read_qp_num(ex_), a_->qp_num);
    }
    EXPECT_EQ(ibv_next_poll(ex_), ENOENT);
    ibv_end_poll(ex_);
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(ex_, &attr), ENOENT);
}

TEST_F(CqExTest, EndedIterationGoesOnWhereItStopped) {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i).post(a_), 0);
    settle();
    ASSERT_EQ(start(), 0);
    ASSERT_EQ(ibv_next_poll(ex_), 0);
    EXPECT_EQ(ex_->wr_id, 1u);
    ibv_end_poll(ex_);
    ASSERT_EQ(start(), 0);
    EXPECT_EQ(ex_->wr_id, 2u);
    ibv_end_poll(ex_);
    // The plain poll continues from there too.
    EXPECT_TRUE(next_are(cq_, {3}));
}

TEST_F(CqExTest, FieldsOfAReceiveAreThoseOfTheMessage) {
    ASSERT_EQ(RecvWr(77).sge(mem_.sge(0, 100)).post(a_), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND_WITH_IMM, 1).sge(mem_.sge(200, 60)).imm(0xabcd1234).post(b_), 0);
    ASSERT_EQ(start(), 0);
    EXPECT_EQ(ex_->wr_id, 77u);
    EXPECT_EQ(ex_->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(ex_), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_byte_len(ex_), 60u);
    EXPECT_TRUE(ibv_wc_read_wc_flags(ex_) & IBV_WC_WITH_IMM);
    EXPECT_EQ(ntohl(ibv_wc_read_imm_data(ex_)), 0xabcd1234u);
    EXPECT_EQ(ibv_wc_read_qp_num(ex_), a_->qp_num);
    EXPECT_EQ(ibv_wc_read_sl(ex_), 0);
    ibv_end_poll(ex_);
    EXPECT_TRUE(next_are(b_cq_, {1}));
}

TEST_F(CqExTest, ErrorsAreIteratedLikeSuccesses) {
    ASSERT_EQ(RecvWr(5).post(a_), 0);
    apply_all(a_.get(), {to_state(IBV_QPS_ERR)});
    ASSERT_EQ(start(), 0);
    EXPECT_EQ(ex_->wr_id, 5u);
    EXPECT_EQ(ex_->status, IBV_WC_WR_FLUSH_ERR);
    ibv_end_poll(ex_);
}

class CqExTimestampTest : public CqExTest {
  protected:
    void SetUp() override {
        ibv_device_attr_ex attr{};
        if (ibv_query_device_ex(hca_.get(), nullptr, &attr) || !attr.completion_timestamp_mask)
            GTEST_SKIP() << "no completion timestamps";
        mask_ = attr.completion_timestamp_mask;
        if (!create(uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP))
            GTEST_SKIP() << "no completion queue with timestamps";
        connect_to_it();
    }
    uint64_t mask_ = 0;
};

TEST_F(CqExTimestampTest, TimestampsDoNotGoBack) {
    uint64_t last = 0;
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i).post(a_), 0);
        ASSERT_EQ(start(), 0);
        const uint64_t now = ibv_wc_read_completion_ts(ex_);
        EXPECT_NE(now, 0u);
        EXPECT_EQ(now & ~mask_, 0u);
        if (i > 0) {
            EXPECT_LT((now - last) & mask_, mask_ / 2);
        }
        last = now;
        ibv_end_poll(ex_);
    }
}

TEST(CqExCreateTest, UnknownFieldsAreRefused) {
    Hca hca;
    ibv_cq_init_attr_ex init{};
    init.cqe = 16;
    init.wc_flags = uint64_t{1} << 40;
    errno = 0;
    EXPECT_EQ(ibv_create_cq_ex(hca.get(), &init), nullptr);
    EXPECT_NE(errno, 0);
}

TEST(CqExCreateTest, BadSizesAreRefused) {
    Hca hca;
    ibv_cq_init_attr_ex init{};
    init.cqe = 0;
    init.wc_flags = IBV_WC_STANDARD_FLAGS;
    errno = 0;
    EXPECT_EQ(ibv_create_cq_ex(hca.get(), &init), nullptr);
    EXPECT_NE(errno, 0);
}

}  // namespace
}  // namespace conformance
