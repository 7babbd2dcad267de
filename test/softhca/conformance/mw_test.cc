// SPDX-License-Identifier: BSD-3-Clause
// Memory windows of type 1 and 2: binding, using, invalidating.
#include <cerrno>

#include "qp.h"

namespace conformance {
namespace {

constexpr int kWindowed = kAllAccess | IBV_ACCESS_MW_BIND;

// A memory window on memory of b, bound by b's queue pair and accessed by a.
class MwTest : public VerbsTest, public testing::WithParamInterface<ibv_mw_type> {
  protected:
    void SetUp() override {
        const unsigned needed = type() == IBV_MW_TYPE_1 ? unsigned{IBV_DEVICE_MEM_WINDOW}
                                                        : unsigned{IBV_DEVICE_MEM_WINDOW_TYPE_2A} |
                                                              IBV_DEVICE_MEM_WINDOW_TYPE_2B;
        if (!(hca_.attr().device_cap_flags & needed)) GTEST_SKIP() << "no such memory windows";
        mw_.reset(ibv_alloc_mw(pd_.get(), type()));
        ASSERT_NE(mw_, nullptr);
    }

    ibv_mw_type type() const { return GetParam(); }

    // Posts, with id 50, the bind of [offset, offset + length).
    int post_bind(const Region& region, std::size_t offset, std::size_t length, unsigned access) {
        ibv_mw_bind_info info{};
        info.mr = region.mr();
        info.addr = region.addr(offset);
        info.length = length;
        info.mw_access_flags = access;
        if (type() == IBV_MW_TYPE_1) {
            ibv_mw_bind bind{};
            bind.wr_id = 50;
            bind.send_flags = IBV_SEND_SIGNALED;
            bind.bind_info = info;
            const int rc = ibv_bind_mw(pair_.b.qp.get(), mw_.get(), &bind);
            if (rc == 0) rkey_ = mw_->rkey;
            return rc;
        }
        SendWr wr(IBV_WR_BIND_MW, 50);
        wr.raw().bind_mw.mw = mw_.get();
        wr.raw().bind_mw.rkey = rkey_ = ibv_inc_rkey(mw_->rkey);
        wr.raw().bind_mw.bind_info = info;
        const int rc = wr.post(pair_.b.qp);
        if (rc == 0) mw_->rkey = rkey_;
        return rc;
    }

    void bind(std::size_t offset, std::size_t length, unsigned access = kRemoteAccess) {
        ASSERT_EQ(post_bind(memory_, offset, length, access), 0);
        const ibv_wc wc = poll_one(pair_.b.send_cq);
        ASSERT_TRUE(is_done(wc, 50));
        EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
    }

    // The completion status of an 8-byte operation of a with the remote key.
    ibv_wc_status access(ibv_wr_opcode op, std::size_t offset, uint32_t rkey) {
        SendWr wr(op);
        wr.sge(pair_.a_mem.sge(0, 8)).remote(memory_.addr(offset), rkey);
        if (int rc = wr.post(pair_.a.qp)) fail("post_send: " + std::to_string(rc));
        return poll_one(pair_.a.send_cq).status;
    }

    Region memory_{pd_.get(), 1 << 16, kWindowed};
    Pair pair_{hca_, pd_.get(), quick()};
    uint32_t rkey_ = 0;
    Mw mw_;
};

TEST_P(MwTest, BoundWindowOpensItsRange) {
    bind(4096, 4096);
    pair_.a_mem.word(0) = 77;
    EXPECT_EQ(access(IBV_WR_RDMA_WRITE, 4096, rkey_), IBV_WC_SUCCESS);
    EXPECT_EQ(memory_.word(512), 77u);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 8184, rkey_), IBV_WC_SUCCESS);
}

TEST_P(MwTest, OutsideTheWindowIsARemoteAccessError) {
    bind(4096, 4096);
    EXPECT_EQ(access(IBV_WR_RDMA_WRITE, 8185, rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(MwTest, BeforeTheWindowIsARemoteAccessError) {
    bind(4096, 4096);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 4095, rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(MwTest, RightsOfTheWindowCount) {
    bind(0, 4096, IBV_ACCESS_REMOTE_READ);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, rkey_), IBV_WC_SUCCESS);
    EXPECT_EQ(access(IBV_WR_RDMA_WRITE, 0, rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(MwTest, UnboundWindowOpensNothing) {
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, mw_->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(MwTest, RegionIsBusyWhileAWindowIsBoundToIt) {
    bind(0, 4096);
    EXPECT_NE(ibv_dereg_mr(memory_.mr()), 0);
    mw_.reset();
}

TEST_P(MwTest, DeallocatedWindowOpensNothing) {
    bind(0, 4096);
    mw_.reset();
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(MwTest, RegionWithoutTheRightToBindIsRefused) {
    Region plain(pd_.get(), 4096, kAllAccess);
    if (post_bind(plain, 0, 4096, kRemoteAccess) == 0) {
        const ibv_wc wc = poll_one(pair_.b.send_cq);
        EXPECT_TRUE(wc.status == IBV_WC_MW_BIND_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR)
            << ibv_wc_status_str(wc.status);
    }
}

TEST_P(MwTest, WindowLargerThanItsRegionIsRefused) {
    if (post_bind(memory_, 4096, 1 << 16, kRemoteAccess) == 0) {
        const ibv_wc wc = poll_one(pair_.b.send_cq);
        EXPECT_TRUE(wc.status == IBV_WC_MW_BIND_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR ||
                    wc.status == IBV_WC_LOC_PROT_ERR)
            << ibv_wc_status_str(wc.status);
    }
}

INSTANTIATE_TEST_SUITE_P(Types, MwTest, testing::Values(IBV_MW_TYPE_1, IBV_MW_TYPE_2),
                         [](const auto& test) { return "Type" + std::to_string(test.param); });

class Mw1Test : public MwTest {};

TEST_P(Mw1Test, RebindingMovesTheWindowAndRetiresTheKey) {
    bind(0, 4096);
    const uint32_t old = rkey_;
    bind(8192, 4096);
    EXPECT_NE(rkey_, old);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 8192, rkey_), IBV_WC_SUCCESS);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, old), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Mw1Test, BindingNothingUnbinds) {
    bind(0, 4096);
    const uint32_t old = rkey_;
    bind(0, 0);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, old), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Mw1Test, RegionOfAnotherDomainIsRefused) {
    Pd other = hca_.make_pd();
    Region foreign(other.get(), 4096, kWindowed);
    EXPECT_EQ(post_bind(foreign, 0, 4096, kRemoteAccess), EPERM);
}

INSTANTIATE_TEST_SUITE_P(Types, Mw1Test, testing::Values(IBV_MW_TYPE_1),
                         [](const auto&) { return "Type1"; });

class Mw2Test : public MwTest {};

TEST_P(Mw2Test, LocalInvalidationClosesTheWindow) {
    bind(0, 4096);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, rkey_), IBV_WC_SUCCESS);
    SendWr invalidate(IBV_WR_LOCAL_INV, 60);
    invalidate.raw().invalidate_rkey = rkey_;
    ASSERT_EQ(invalidate.post(pair_.b.qp), 0);
    const ibv_wc wc = poll_one(pair_.b.send_cq);
    ASSERT_TRUE(is_done(wc, 60));
    EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Mw2Test, SendWithInvalidateClosesTheWindowOfTheReceiver) {
    bind(0, 4096);
    ASSERT_EQ(RecvWr(1).sge(pair_.b_mem.sge(0, 64)).post(pair_.b.qp), 0);
    SendWr send(IBV_WR_SEND_WITH_INV, 2);
    send.sge(pair_.a_mem.sge(0, 32));
    send.raw().invalidate_rkey = rkey_;
    ASSERT_EQ(send.post(pair_.a.qp), 0);
    const ibv_wc wc = poll_one(pair_.b.recv_cq);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.byte_len, 32u);
    ASSERT_TRUE(next_are(pair_.a.send_cq, {2}));
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Mw2Test, ReceiverLearnsWhichKeyWasInvalidated) {
    bind(0, 4096);
    ASSERT_EQ(RecvWr(1).post(pair_.b.qp), 0);
    SendWr send(IBV_WR_SEND_WITH_INV, 2);
    send.raw().invalidate_rkey = rkey_;
    ASSERT_EQ(send.post(pair_.a.qp), 0);
    const ibv_wc wc = poll_one(pair_.b.recv_cq);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV) << "flags " << wc.wc_flags;
    EXPECT_EQ(wc.invalidated_rkey, rkey_);
}

TEST_P(Mw2Test, InvalidatingAKeyThatIsNotThereFails) {
    ASSERT_EQ(RecvWr(1).sge(pair_.b_mem.sge(0, 64)).post(pair_.b.qp), 0);
    SendWr send(IBV_WR_SEND_WITH_INV, 2);
    send.sge(pair_.a_mem.sge(0, 32));
    send.raw().invalidate_rkey = mw_->rkey ^ 0x5a00;
    ASSERT_EQ(send.post(pair_.a.qp), 0);
    const ibv_wc_status status = poll_one(pair_.a.send_cq).status;
    EXPECT_TRUE(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR ||
                status == IBV_WC_REM_INV_REQ_ERR)
        << ibv_wc_status_str(status);
}

TEST_P(Mw2Test, BindMayFollowInvalidateInOneQueue) {
    bind(0, 4096);
    SendWr invalidate(IBV_WR_LOCAL_INV, 60);
    invalidate.raw().invalidate_rkey = rkey_;
    ASSERT_EQ(invalidate.flags(0).post(pair_.b.qp), 0);
    bind(8192, 4096);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 8192, rkey_), IBV_WC_SUCCESS);
    EXPECT_EQ(access(IBV_WR_RDMA_READ, 0, rkey_), IBV_WC_REM_ACCESS_ERR);
}

INSTANTIATE_TEST_SUITE_P(Types, Mw2Test, testing::Values(IBV_MW_TYPE_2),
                         [](const auto&) { return "Type2"; });

}  // namespace
}  // namespace conformance
