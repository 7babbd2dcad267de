// SPDX-License-Identifier: BSD-3-Clause
// Posting with ibv_wr_* calls: builders, setters, batches.
#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>

#include "xrc.h"

namespace conformance {
namespace {

constexpr uint64_t kCommonOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr uint64_t kWriteOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
constexpr uint64_t kReadOps = IBV_QP_EX_WITH_RDMA_READ;
constexpr uint64_t kAtomicOps =
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

class WrApiTest : public VerbsTest {
  protected:
    // Creates a queue pair that takes `ops`; false: the device has no such interface.
    bool create(const QpSpec& spec, uint64_t ops) {
        ibv_qp_init_attr_ex init{};
        init.send_cq = init.recv_cq = cq_.get();
        init.cap = {16, 16, 4, 4, 64};
        if (spec.type == IBV_QPT_XRC_SEND) {
            init.recv_cq = nullptr;
            init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
        }
        init.qp_type = spec.type;
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.pd = pd_.get();
        init.send_ops_flags = ops;
        errno = 0;
        qp_.reset(ibv_create_qp_ex(hca_.get(), &init));
        if (!qp_) {
            if (is_unsupported(errno)) return false;
            fail_errno("ibv_create_qp_ex");
        }
        ex_ = ibv_qp_to_qp_ex(qp_.get());
        if (!ex_) fail("ibv_qp_to_qp_ex");
        return true;
    }

    void connect_rc() {
        bring_up(hca_, b_.qp.get(), {}, as_peer(hca_, qp_.get(), {}));
        bring_up(hca_, qp_.get(), {}, as_peer(hca_, b_.qp.get(), {}));
    }

    bool create_rc(uint64_t ops) {
        if (!create({}, ops)) return false;
        connect_rc();
        return true;
    }

    // Begins a request by setting its id and its flags.
    void begin(uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
        ex_->wr_id = id;
        ex_->wr_flags = flags;
    }

    Region mem_{pd_.get(), 1 << 16};
    Region b_mem_{pd_.get(), 1 << 16};
    Cq cq_ = hca_.make_cq();
    Endpoint b_{hca_, pd_.get()};
    Qp qp_;
    ibv_qp_ex* ex_ = nullptr;
};

TEST_F(WrApiTest, SendWithOneElement) {
    if (!create_rc(kCommonOps)) GTEST_SKIP() << "no ibv_wr_*";
    mem_.fill(1, 0, 100);
    ASSERT_EQ(RecvWr(1).sge(b_mem_.sge(0, 200)).post(b_.qp), 0);
    ibv_wr_start(ex_);
    begin(2);
    ibv_wr_send(ex_);
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 100);
    ASSERT_EQ(ibv_wr_complete(ex_), 0);
    EXPECT_TRUE(next_are(cq_, {2}));
    const ibv_wc wc = poll_one(b_.recv_cq);
    EXPECT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.byte_len, 100u);
    EXPECT_TRUE(b_mem_.holds(1, 0, 100));
}

TEST_F(WrApiTest, SendWithImmediateAndAListOfElements) {
    if (!create_rc(kCommonOps)) GTEST_SKIP() << "no ibv_wr_*";
    mem_.fill(1, 0, 10);
    mem_.fill(2, 100, 20);
    ASSERT_EQ(RecvWr(1).sge(b_mem_.sge(0, 200)).post(b_.qp), 0);
    const ibv_sge list[] = {mem_.sge(0, 10), mem_.sge(100, 20)};
    ibv_wr_start(ex_);
    begin(2);
    ibv_wr_send_imm(ex_, htonl(99));
    ibv_wr_set_sge_list(ex_, 2, list);
    ASSERT_EQ(ibv_wr_complete(ex_), 0);
    const ibv_wc wc = poll_one(b_.recv_cq);
    EXPECT_EQ(ntohl(wc.imm_data), 99u);
    EXPECT_EQ(wc.byte_len, 30u);
    EXPECT_TRUE(b_mem_.holds(1, 0, 10));
    EXPECT_TRUE(b_mem_.holds(2, 10, 20));
    EXPECT_TRUE(next_are(cq_, {2}));
}

TEST_F(WrApiTest, InlineDataAndItsList) {
    if (!create_rc(kCommonOps)) GTEST_SKIP() << "no ibv_wr_*";
    char first[] = "one ";
    char second[] = "two";
    for (int parts : {1, 2}) {
        ASSERT_EQ(RecvWr(1).sge(b_mem_.sge(0, 64)).post(b_.qp), 0);
        ibv_wr_start(ex_);
        begin(2);
        ibv_wr_send(ex_);
        if (parts == 1) {
            ibv_wr_set_inline_data(ex_, first, 4);
        } else {
            const ibv_data_buf list[] = {{first, 4}, {second, 3}};
            ibv_wr_set_inline_data_list(ex_, 2, list);
        }
        ASSERT_EQ(ibv_wr_complete(ex_), 0);
        const ibv_wc wc = poll_one(b_.recv_cq);
        ASSERT_TRUE(is_done(wc, 1));
        const std::string got(reinterpret_cast<char*>(b_mem_.data()), wc.byte_len);
        EXPECT_EQ(got, parts == 1 ? "one " : "one two");
        EXPECT_TRUE(next_are(cq_, {2}));
    }
}

TEST_F(WrApiTest, WritesAndReads) {
    if (!create_rc(kWriteOps | kReadOps)) GTEST_SKIP() << "no ibv_wr_*";
    mem_.fill(3, 0, 1000);
    ASSERT_EQ(RecvWr(1).post(b_.qp), 0);
    ibv_wr_start(ex_);
    begin(2);
    ibv_wr_rdma_write(ex_, b_mem_.rkey(), b_mem_.addr());
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 1000);
    begin(3);
    ibv_wr_rdma_write_imm(ex_, b_mem_.rkey(), b_mem_.addr(2000), htonl(7));
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 500);
    begin(4);
    ibv_wr_rdma_read(ex_, b_mem_.rkey(), b_mem_.addr());
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(5000), 1000);
    ASSERT_EQ(ibv_wr_complete(ex_), 0);
    ASSERT_TRUE(next_are(cq_, {2, 3, 4}));
    EXPECT_TRUE(b_mem_.holds(3, 0, 1000));
    EXPECT_TRUE(b_mem_.holds(3, 2000, 500));
    EXPECT_TRUE(mem_.holds(3, 5000, 1000));
    const ibv_wc wc = poll_one(b_.recv_cq);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(ntohl(wc.imm_data), 7u);
}

TEST_F(WrApiTest, Atomics) {
    if (!hca_.has_atomics()) GTEST_SKIP() << "no atomics";
    if (!create_rc(kAtomicOps)) GTEST_SKIP() << "no ibv_wr_*";
    b_mem_.word(0) = 5;
    ibv_wr_start(ex_);
    begin(1);
    ibv_wr_atomic_fetch_add(ex_, b_mem_.rkey(), b_mem_.addr(), 3);
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(0), 8);
    begin(2);
    ibv_wr_atomic_cmp_swp(ex_, b_mem_.rkey(), b_mem_.addr(), 8, 100);
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(8), 8);
    ASSERT_EQ(ibv_wr_complete(ex_), 0);
    ASSERT_TRUE(next_are(cq_, {1, 2}));
    EXPECT_EQ(mem_.word(0), 5u);
    EXPECT_EQ(mem_.word(1), 8u);
    EXPECT_EQ(b_mem_.word(0), 100u);
}

TEST_F(WrApiTest, NothingHappensBeforeCompleteAndNothingAfterAbort) {
    if (!create_rc(kWriteOps)) GTEST_SKIP() << "no ibv_wr_*";
    mem_.word(0) = 1;
    ibv_wr_start(ex_);
    begin(1);
    ibv_wr_rdma_write(ex_, b_mem_.rkey(), b_mem_.addr());
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 8);
    EXPECT_TRUE(quiet(cq_));
    EXPECT_EQ(b_mem_.word(0), 0u);
    ibv_wr_abort(ex_);
    EXPECT_TRUE(quiet(cq_));
    EXPECT_EQ(b_mem_.word(0), 0u);
    ibv_wr_start(ex_);
    begin(2);
    ibv_wr_rdma_write(ex_, b_mem_.rkey(), b_mem_.addr());
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 8);
    ASSERT_EQ(ibv_wr_complete(ex_), 0);
    EXPECT_TRUE(next_are(cq_, {2})) << "the aborted request left something behind";
    EXPECT_EQ(b_mem_.word(0), 1u);
}

TEST_F(WrApiTest, BatchThatDoesNotFitIsRefusedAsAWhole) {
    if (!create_rc(kWriteOps)) GTEST_SKIP() << "no ibv_wr_*";
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(qp_.get(), &attr, IBV_QP_CAP, &init), 0);
    ibv_wr_start(ex_);
    for (uint64_t i = 0; i <= init.cap.max_send_wr; ++i) {
        begin(i);
        ibv_wr_rdma_write(ex_, b_mem_.rkey(), b_mem_.addr());
        ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 8);
    }
    EXPECT_NE(ibv_wr_complete(ex_), 0);
    EXPECT_TRUE(quiet(cq_));
    // ibv_post_send may be used in between, and the whole queue is free for it.
    for (uint64_t i = 0; i < init.cap.max_send_wr; ++i)
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i).post(qp_), 0);
}

TEST_F(WrApiTest, TooMuchInlineDataFailsTheBatch) {
    if (!create_rc(kCommonOps)) GTEST_SKIP() << "no ibv_wr_*";
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(qp_.get(), &attr, IBV_QP_CAP, &init), 0);
    ibv_wr_start(ex_);
    begin(1);
    ibv_wr_send(ex_);
    ibv_wr_set_inline_data(ex_, mem_.data(), init.cap.max_inline_data + 1);
    EXPECT_NE(ibv_wr_complete(ex_), 0);
    EXPECT_TRUE(quiet(cq_));
}

TEST_F(WrApiTest, UnsignalledRequestsAreSilent) {
    if (!create_rc(kWriteOps)) GTEST_SKIP() << "no ibv_wr_*";
    ibv_wr_start(ex_);
    for (uint64_t i = 1; i <= 4; ++i) {
        begin(i, i == 4 ? IBV_SEND_SIGNALED : 0);
        ibv_wr_rdma_write(ex_, b_mem_.rkey(), b_mem_.addr());
        ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 8);
    }
    ASSERT_EQ(ibv_wr_complete(ex_), 0);
    EXPECT_TRUE(next_are(cq_, {4}));
}

TEST_F(WrApiTest, DatagramsAreAddressedByASetter) {
    QpSpec spec;
    spec.type = IBV_QPT_UD;
    if (!create(spec, kCommonOps)) GTEST_SKIP() << "no ibv_wr_*";
    bring_up(hca_, qp_.get(), spec, {});
    Endpoint target(hca_, pd_.get(), spec);
    bring_up(hca_, target.qp.get(), spec, {});
    Ah ah = hca_.make_ah(pd_.get(), hca_.address());
    ASSERT_EQ(RecvWr(1).sge(b_mem_.sge(0, 4096)).post(target.qp), 0);
    mem_.fill(5, 0, 64);
    ibv_wr_start(ex_);
    begin(2);
    ibv_wr_send(ex_);
    ibv_wr_set_ud_addr(ex_, ah.get(), target.qp->qp_num, kQkey);
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 64);
    ASSERT_EQ(ibv_wr_complete(ex_), 0);
    EXPECT_TRUE(next_are(cq_, {2}));
    const ibv_wc wc = poll_one(target.recv_cq);
    EXPECT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.src_qp, qp_->qp_num);
    EXPECT_TRUE(b_mem_.holds(5, 40, 64));
}

TEST_F(WrApiTest, XrcQueuesAreAddressedByASetter) {
    if (!hca_.has(IBV_DEVICE_XRC)) GTEST_SKIP() << "no XRC";
    if (!create(xrc_send_spec(), kCommonOps)) GTEST_SKIP() << "no ibv_wr_*";
    Xrcd xrcd = open_xrcd(hca_);
    ASSERT_NE(xrcd, nullptr);
    Cq inbox = hca_.make_cq();
    Srq srq = make_xrc_srq(hca_, pd_.get(), xrcd.get(), inbox.get());
    Qp receiver = make_xrc_receiver(hca_, xrcd.get());
    connect_xrc(hca_, qp_, receiver);
    ASSERT_EQ(RecvWr(1).sge(b_mem_.sge(0, 64)).post(srq), 0);
    ibv_wr_start(ex_);
    begin(2);
    ibv_wr_send_imm(ex_, htonl(11));
    ibv_wr_set_xrc_srqn(ex_, srq_number(srq));
    ibv_wr_set_sge(ex_, mem_.lkey(), mem_.addr(), 8);
    ASSERT_EQ(ibv_wr_complete(ex_), 0);
    EXPECT_TRUE(next_are(inbox, {1}));
    EXPECT_TRUE(next_are(cq_, {2}));
}

TEST_F(WrApiTest, OperationsTheTransportLacksAreRefusedAtCreation) {
    if (!create_rc(kCommonOps)) GTEST_SKIP() << "no ibv_wr_*";
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq_.get();
    init.cap = {16, 16, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_.get();
    init.send_ops_flags = kReadOps;
    EXPECT_EQ(Qp(ibv_create_qp_ex(hca_.get(), &init)), nullptr);
    EXPECT_NE(errno, 0);
}

}  // namespace
}  // namespace conformance
