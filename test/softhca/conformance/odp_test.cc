// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging: regions whose pages need not exist when they are registered, and which show the
// memory that the process has at the time of an access.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "qp.h"

namespace conformance {
namespace {

constexpr std::size_t kOdpBytes = 1 << 16;
constexpr std::size_t kAcrossPages = 3 * 4096 + 100;  // of a message
constexpr std::size_t kPlace = 4096 - 50;

class OdpTest : public VerbsTest {
  protected:
    void SetUp() override {
        ibv_device_attr_ex all{};
        constexpr uint32_t kNeeded = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                     IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
        const bool known = ibv_query_device_ex(hca_.get(), nullptr, &all) == 0;
        const uint32_t found = all.odp_caps.per_transport_caps.rc_odp_caps;
        has_odp_ = known && (all.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
                   (found & kNeeded) == kNeeded;
        has_atomics_ = (found & IBV_ODP_SUPPORT_ATOMIC) != 0 && hca_.has_atomics();
        if (!has_odp_) GTEST_SKIP() << "no on-demand paging";
    }

    Region on_demand(int access = kAllAccess) const {
        return Region(pd_.get(), kOdpBytes, access | IBV_ACCESS_ON_DEMAND);
    }
    // A region whose memory is gone.
    Region emptied(int access = kAllAccess) const {
        Region region = on_demand(access);
        if (munmap(region.data(), region.size()) != 0) fail_errno("munmap");
        return region;
    }
    static void map_again(const Region& region, int protection = PROT_READ | PROT_WRITE) {
        if (mmap(region.data(), region.size(), protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                 -1, 0) != region.data())
            fail_errno("mmap");
    }
    static ibv_wc write(const Pair& pair, const Region& from, const Region& to) {
        EXPECT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(from.sge(kPlace, kAcrossPages))
                      .remote(to, kPlace)
                      .post(pair.a.qp),
                  0);
        return poll_one(pair.a.send_cq);
    }
    static ibv_wc read(const Pair& pair, const Region& to, const Region& from) {
        EXPECT_EQ(SendWr(IBV_WR_RDMA_READ, 1)
                      .sge(to.sge(kPlace, kAcrossPages))
                      .remote(from, kPlace)
                      .post(pair.a.qp),
                  0);
        return poll_one(pair.a.send_cq);
    }

    bool has_odp_ = false;
    bool has_atomics_ = false;
};

TEST_F(OdpTest, WriteAndReadBetweenPagesThatNobodyHasTouched) {
    const Pair pair(hca_, pd_.get());
    const Region from = on_demand(), to = on_demand(), back = on_demand();
    from.fill(1, kPlace, kAcrossPages);
    ASSERT_TRUE(is_done(write(pair, from, to), 1));
    EXPECT_TRUE(to.holds(1, kPlace, kAcrossPages));
    ASSERT_TRUE(is_done(read(pair, back, to), 1));
    EXPECT_TRUE(back.holds(1, kPlace, kAcrossPages));
    const Region never = on_demand();
    ASSERT_TRUE(is_done(read(pair, back, never), 1));
    EXPECT_TRUE(back.is_all(0, kPlace, kAcrossPages));
}

TEST_F(OdpTest, SendAndReceive) {
    const Pair pair(hca_, pd_.get());
    const Region from = on_demand(), to = on_demand();
    from.fill(2, kPlace, kAcrossPages);
    ASSERT_EQ(RecvWr(3).sge(to.sge(kPlace, kAcrossPages)).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 1).sge(from.sge(kPlace, kAcrossPages)).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_TRUE(next_are(pair.b.recv_cq, {3}));
    EXPECT_TRUE(to.holds(2, kPlace, kAcrossPages));
}

TEST_F(OdpTest, Atomics) {
    if (!has_atomics_) GTEST_SKIP() << "no atomics on demand";
    const Pair pair(hca_, pd_.get());
    const Region result = on_demand(), target = on_demand();
    for (uint64_t i = 0; i < 2; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_ATOMIC_FETCH_AND_ADD, 1)
                      .sge(result.sge(8, 8))
                      .atomic(target.addr(16), target.rkey(), 5)
                      .post(pair.a.qp),
                  0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        EXPECT_EQ(result.word(1), 5 * i);
    }
    EXPECT_EQ(target.word(2), 10u);
}

// Requests behind one that faults keep their order.
TEST_F(OdpTest, RequestsBehindAFaultFollowInOrder) {
    const Pair pair(hca_, pd_.get());
    const Region to = on_demand();
    constexpr uint64_t kWrites = 8;
    for (uint64_t i = 0; i < kWrites; ++i) pair.a_mem.word(i) = i + 1;
    for (uint64_t i = 0; i < kWrites; ++i)
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i)
                      .sge(pair.a_mem.sge(8 * i, 8))
                      .remote(to, i % 2 == 0 ? 0 : 4096 * i)
                      .post(pair.a.qp),
                  0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(to.word(0), 7u);
}

TEST_F(OdpTest, AfterDontneedTheDeviceSeesTheNewPages) {
    const Pair pair(hca_, pd_.get());
    const Region to = on_demand(), back = on_demand();
    pair.a_mem.fill(3, kPlace, kAcrossPages);
    ASSERT_TRUE(is_done(write(pair, pair.a_mem, to), 1));
    ASSERT_EQ(madvise(to.data(), kOdpBytes, MADV_DONTNEED), 0);
    ASSERT_TRUE(is_done(read(pair, back, to), 1));
    EXPECT_TRUE(back.is_all(0, kPlace, kAcrossPages));
    ASSERT_TRUE(is_done(write(pair, pair.a_mem, to), 1));
    EXPECT_TRUE(to.holds(3, kPlace, kAcrossPages));
}

TEST_F(OdpTest, TheDeviceUsesWhatIsMappedNow) {
    const Pair pair(hca_, pd_.get());
    const Region to = on_demand();
    pair.a_mem.fill(4, kPlace, kAcrossPages);
    ASSERT_TRUE(is_done(write(pair, pair.a_mem, to), 1));
    map_again(to);
    EXPECT_TRUE(to.is_all(0, kPlace, kAcrossPages));
    ASSERT_TRUE(is_done(write(pair, pair.a_mem, to), 1));
    EXPECT_TRUE(to.holds(4, kPlace, kAcrossPages));
}

TEST_F(OdpTest, RemoteMemoryThatIsGoneFailsAtTheAccess) {
    const Pair pair(hca_, pd_.get(), quick());
    const Region gone = emptied();
    EXPECT_TRUE(is_done(write(pair, pair.a_mem, gone), 1, IBV_WC_REM_ACCESS_ERR));
    map_again(gone);
}

TEST_F(OdpTest, LocalMemoryThatIsGoneFailsAtTheAccess) {
    const Pair pair(hca_, pd_.get(), quick());
    const Region gone = emptied();
    EXPECT_TRUE(is_done(write(pair, gone, pair.b_mem), 1, IBV_WC_LOC_PROT_ERR));
    map_again(gone);
}

// A pinned region of such memory is refused.
TEST_F(OdpTest, MemoryThatMayNotBeWrittenFailsWhenItIsWritten) {
    const Pair pair(hca_, pd_.get(), quick());
    const Region constant = on_demand();
    ASSERT_EQ(mprotect(constant.data(), kOdpBytes, PROT_READ), 0);
    Mr mr(ibv_reg_mr(pd_.get(), constant.data(), kOdpBytes, kAllAccess | IBV_ACCESS_ON_DEMAND));
    ASSERT_NE(mr, nullptr);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 1)
                  .sge(pair.a_mem.sge(0, 64))
                  .remote(constant.addr(), mr->rkey)
                  .post(pair.a.qp),
              0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 2)
                  .sge(pair.a_mem.sge(0, 64))
                  .remote(constant.addr(), mr->rkey)
                  .post(pair.a.qp),
              0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_REM_ACCESS_ERR));
}

}  // namespace
}  // namespace conformance
