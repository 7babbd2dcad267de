// SPDX-License-Identifier: BSD-3-Clause
// The null region: reads from it give zeros, and writes to it are discarded.
#include <cerrno>
#include <cstring>

#include "qp.h"

namespace conformance {
namespace {

class NullMrTest : public VerbsTest {
  protected:
    void SetUp() override {
        errno = 0;
        null_.reset(ibv_alloc_null_mr(pd_.get()));
        if (!null_ && is_unsupported(errno)) GTEST_SKIP() << "no null regions";
        ASSERT_NE(null_, nullptr);
    }

    ibv_sge nothing(uint32_t length, uint64_t address = 0x123456789) {
        return {address, length, null_->lkey};
    }

    Mr null_;
};

TEST_F(NullMrTest, ReadsAsZeros) {
    Pair pair(hca_, pd_.get());
    pair.b_mem.fill(1);
    ASSERT_EQ(
        SendWr(IBV_WR_RDMA_WRITE, 1).sge(nothing(3000)).remote(pair.b_mem, 100).post(pair.a.qp), 0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_TRUE(pair.b_mem.is_all(0, 100, 3000));
    Region whole(pd_.get(), 1 << 16);
    whole.fill(1);
    EXPECT_EQ(std::memcmp(pair.b_mem.data(), whole.data(), 100), 0);
    EXPECT_EQ(std::memcmp(pair.b_mem.data() + 3100, whole.data() + 3100, 1000), 0);
}

TEST_F(NullMrTest, PadsAMessage) {
    Pair pair(hca_, pd_.get());
    pair.a_mem.fill(2, 0, 50);
    pair.b_mem.fill(9);
    ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 1000)).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2)
                  .sges({nothing(14), pair.a_mem.sge(0, 50), nothing(36)})
                  .post(pair.a.qp),
              0);
    const ibv_wc wc = poll_one(pair.b.recv_cq);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.byte_len, 100u);
    EXPECT_TRUE(pair.b_mem.is_all(0, 0, 14));
    EXPECT_EQ(std::memcmp(pair.b_mem.data() + 14, pair.a_mem.data(), 50), 0);
    EXPECT_TRUE(pair.b_mem.is_all(0, 64, 36));
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}));
}

TEST_F(NullMrTest, SwallowsAPartOfAMessage) {
    Pair pair(hca_, pd_.get());
    pair.a_mem.fill(2, 0, 100);
    ASSERT_EQ(RecvWr(1).sges({nothing(40), pair.b_mem.sge(0, 20), nothing(1000)}).post(pair.b.qp),
              0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, 100)).post(pair.a.qp), 0);
    const ibv_wc wc = poll_one(pair.b.recv_cq);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.byte_len, 100u);
    EXPECT_EQ(std::memcmp(pair.b_mem.data(), pair.a_mem.data() + 40, 20), 0);
    EXPECT_TRUE(pair.b_mem.is_all(0, 20, 1000));
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}));
}

TEST_F(NullMrTest, StaysZeroWhenItHasBeenWrittenTo) {
    Pair pair(hca_, pd_.get());
    pair.b_mem.fill(3);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 1).sge(nothing(1 << 16)).remote(pair.b_mem).post(pair.a.qp),
              0);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2).sge(nothing(1 << 16)).remote(pair.b_mem).post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1, 2}));
    EXPECT_TRUE(pair.b_mem.is_all(0, 0, 1 << 16));
}

TEST_F(NullMrTest, HasEveryAddress) {
    Pair pair(hca_, pd_.get());
    pair.b_mem.fill(4);
    for (const uint64_t address :
         {uint64_t{0}, uint64_t{1}, uint64_t{1} << 47, ~uint64_t{0} - 100}) {
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(nothing(100, address))
                      .remote(pair.b_mem)
                      .post(pair.a.qp),
                  0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1})) << address;
        EXPECT_TRUE(pair.b_mem.is_all(0, 0, 100));
    }
}

TEST_F(NullMrTest, CarriesLongMessages) {
    constexpr uint32_t kLong = 5 << 20;
    Pair pair(hca_, pd_.get(), {}, kLong);
    pair.a_mem.fill(5);
    pair.b_mem.fill(6);
    ASSERT_EQ(RecvWr(1).sge(nothing(kLong)).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge()).post(pair.a.qp), 0);
    ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 3).sge(nothing(kLong)).remote(pair.b_mem).post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {2, 3}));
    EXPECT_TRUE(pair.b_mem.is_all(0, 0, kLong));
}

TEST_F(NullMrTest, IsNotForOthers) {
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(pair.a_mem.sge(0, 8))
                  .remote(pair.b_mem.addr(), null_->lkey)
                  .post(pair.a.qp),
              0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(NullMrTest, IsOfOneDomain) {
    Pd other = hca_.make_pd();
    Pair pair(hca_, other.get(), quick());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).sge(nothing(8)).remote(pair.b_mem).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_LOC_PROT_ERR));
}

TEST_F(NullMrTest, KeepsItsDomainBusy) {
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
    null_.reset();
}

TEST_F(NullMrTest, IsNoLongerThereWhenItIsDeregistered) {
    Pair pair(hca_, pd_.get(), quick());
    const ibv_sge element = nothing(8);
    null_.reset();
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).sge(element).remote(pair.b_mem).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_LOC_PROT_ERR));
}

}  // namespace
}  // namespace conformance
