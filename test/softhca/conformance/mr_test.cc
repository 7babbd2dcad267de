// SPDX-License-Identifier: BSD-3-Clause
// Registering memory: what is accepted, and which accesses a registration then permits.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

constexpr std::size_t kPage = 4096;

// Anonymous pages with a given protection.
struct Pages {
    Pages(std::size_t size, int protection)
        : length(size),
          memory(mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (memory == MAP_FAILED) fail_errno("mmap");
    }
    ~Pages() { munmap(memory, length); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    std::size_t length;
    void* memory;
};

class MrTest : public VerbsTest {
  protected:
    Mr reg(void* addr, std::size_t length, int access) {
        errno = 0;
        return Mr(ibv_reg_mr(pd_.get(), addr, length, access));
    }

    Pages pages_{4 * kPage, PROT_READ | PROT_WRITE};
};

TEST_F(MrTest, ReportsWhatWasRegistered) {
    auto* start = static_cast<uint8_t*>(pages_.memory) + 100;
    Mr mr = reg(start, 300, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->addr, start);
    EXPECT_EQ(mr->length, 300u);
    EXPECT_EQ(mr->pd, pd_.get());
    EXPECT_EQ(mr->context, hca_.get());
}

struct AccessCase {
    int access;
    bool allowed;
};

class MrAccessTest : public MrTest, public testing::WithParamInterface<AccessCase> {};

TEST_P(MrAccessTest, RemoteWriteAndAtomicNeedLocalWrite) {
    const AccessCase& c = GetParam();
    if ((c.access & IBV_ACCESS_REMOTE_ATOMIC) && !hca_.has_atomics()) GTEST_SKIP() << "no atomics";
    Mr mr = reg(pages_.memory, kPage, c.access);
    if (c.allowed) {
        EXPECT_NE(mr, nullptr);
    } else {
        EXPECT_EQ(mr, nullptr);
        EXPECT_EQ(errno, EINVAL);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Flags, MrAccessTest,
    testing::Values(AccessCase{0, true}, AccessCase{IBV_ACCESS_LOCAL_WRITE, true},
                    AccessCase{IBV_ACCESS_REMOTE_READ, true},
                    AccessCase{IBV_ACCESS_REMOTE_WRITE, false},
                    AccessCase{IBV_ACCESS_REMOTE_ATOMIC, false}, AccessCase{kRemoteAccess, false},
                    AccessCase{kAllAccess, true},
                    AccessCase{kAllAccess | IBV_ACCESS_RELAXED_ORDERING, true},
                    AccessCase{IBV_ACCESS_LOCAL_WRITE | (1 << 19), false}),
    [](const auto& test) { return "Access" + std::to_string(test.param.access); });

TEST_F(MrTest, EmptyRangeIsRefused) {
    EXPECT_EQ(reg(pages_.memory, 0, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(MrTest, UnmappedRangeIsRefused) {
    void* hole;
    {
        Pages gone(4 * kPage, PROT_READ | PROT_WRITE);
        hole = gone.memory;
    }
    EXPECT_EQ(reg(hole, kPage, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_NE(errno, 0);
}

TEST_F(MrTest, RangeWithAHoleIsRefused) {
    ASSERT_EQ(munmap(static_cast<uint8_t*>(pages_.memory) + kPage, kPage), 0);
    EXPECT_EQ(reg(pages_.memory, 3 * kPage, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_NE(errno, 0);
}

TEST_F(MrTest, RangeThatWrapsAroundIsRefused) {
    EXPECT_EQ(reg(pages_.memory, SIZE_MAX - kPage, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_NE(errno, 0);
}

TEST_F(MrTest, ReadOnlyPagesCannotBeWrittenLocally) {
    Pages constant(kPage, PROT_READ);
    EXPECT_EQ(reg(constant.memory, kPage, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_NE(errno, 0);
}

TEST_F(MrTest, InaccessiblePagesAreRefused) {
    Pages none(kPage, PROT_NONE);
    EXPECT_EQ(reg(none.memory, kPage, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_NE(errno, 0);
}

TEST_F(MrTest, ManyOfTheSameMemoryHaveKeysOfTheirOwn) {
    const int count = std::min(hca_.attr().max_mr / 2, 500);
    std::vector<Mr> regions;
    std::set<uint32_t> keys;
    for (int i = 0; i < count; ++i) {
        regions.push_back(reg(pages_.memory, 4 * kPage, kAllAccess));
        ASSERT_NE(regions.back(), nullptr) << i;
        keys.insert(regions.back()->rkey);
    }
    EXPECT_EQ(keys.size(), regions.size());
}

TEST_F(MrTest, IovaIsTheAddressUsedOnTheWire) {
    Pair pair(hca_, pd_.get());
    constexpr uint64_t kIova = 0x7000'0000'0000 + 64;
    auto* start = static_cast<uint8_t*>(pages_.memory) + 64;
    Mr mr(ibv_reg_mr_iova(pd_.get(), start, kPage, kIova, kAllAccess));
    ASSERT_NE(mr, nullptr);
    pair.a_mem.fill(3, 0, 512);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(pair.a_mem.sge(0, 256))
                  .remote(kIova, mr->rkey)
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_EQ(std::memcmp(start, pair.a_mem.data(), 256), 0);
    // The same holds for the local key.
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 2)
                  .sge({kIova + 256, 256, mr->lkey})
                  .remote(pair.a_mem, 256)
                  .post(pair.b.qp),
              0);
    ASSERT_TRUE(next_are(pair.b.send_cq, {2}));
    EXPECT_EQ(std::memcmp(start + 256, pair.a_mem.data() + 256, 256), 0);
}

class MrReregTest : public MrTest {
  protected:
    // The completion status of an 8-byte RDMA write to `addr`.
    ibv_wc_status write_to(void* addr, uint32_t rkey) {
        Pair pair(hca_, pd_.get(), quick());
        SendWr wr(IBV_WR_RDMA_WRITE);
        wr.sge(pair.a_mem.sge(0, 8)).remote(reinterpret_cast<uintptr_t>(addr), rkey);
        if (int rc = wr.post(pair.a.qp)) fail("post: " + std::to_string(rc));
        return poll_one(pair.a.send_cq).status;
    }

    // Registers again; false: the device cannot.
    bool rereg(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) {
        errno = 0;
        const int rc = ibv_rereg_mr(mr, flags, pd, addr, length, access);
        if (rc == 0) return true;
        if (is_unsupported(errno) || is_unsupported(rc)) return false;
        fail("ibv_rereg_mr: " + std::to_string(rc));
    }

    Mr mr_ = reg(pages_.memory, kPage, kAllAccess);
};

TEST_F(MrReregTest, ChangesAccess) {
    if (!rereg(mr_.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE))
        GTEST_SKIP() << "no ibv_rereg_mr";
    EXPECT_EQ(write_to(pages_.memory, mr_->rkey), IBV_WC_REM_ACCESS_ERR);
    ASSERT_TRUE(rereg(mr_.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess));
    EXPECT_EQ(write_to(pages_.memory, mr_->rkey), IBV_WC_SUCCESS);
}

TEST_F(MrReregTest, ChangesTranslation) {
    auto* second = static_cast<uint8_t*>(pages_.memory) + 2 * kPage;
    if (!rereg(mr_.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, second, kPage, 0))
        GTEST_SKIP() << "no ibv_rereg_mr of the translation";
    EXPECT_EQ(mr_->addr, second);
    EXPECT_EQ(mr_->length, kPage);
    EXPECT_EQ(write_to(second, mr_->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(write_to(pages_.memory, mr_->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MrReregTest, ChangesProtectionDomain) {
    Pd other = hca_.make_pd();
    if (!rereg(mr_.get(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0)) {
        mr_.reset();
        GTEST_SKIP() << "no ibv_rereg_mr of the protection domain";
    }
    EXPECT_EQ(mr_->pd, other.get());
    EXPECT_EQ(write_to(pages_.memory, mr_->rkey), IBV_WC_REM_ACCESS_ERR);
    mr_.reset();
}

TEST_F(MrReregTest, BadInputLeavesTheRegionAsItWas) {
    if (!rereg(mr_.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess))
        GTEST_SKIP() << "no ibv_rereg_mr";
    EXPECT_EQ(ibv_rereg_mr(mr_.get(), 1 << 7, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(ibv_rereg_mr(mr_.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, kPage, 0),
              IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(
        ibv_rereg_mr(mr_.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages_.memory, 0, 0),
        IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(ibv_rereg_mr(mr_.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages_.memory,
                           kPage, kAllAccess),
              IBV_REREG_MR_ERR_INPUT)
        << "access flags without the flag that changes them";
    EXPECT_EQ(write_to(pages_.memory, mr_->rkey), IBV_WC_SUCCESS);
}

TEST_F(MrTest, DeregisteredReceiveBufferFailsTheMessage) {
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 64)).post(pair.b.qp), 0);
    pair.b_mem.deregister();
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, 64)).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_REM_OP_ERR));
    EXPECT_TRUE(next_are(pair.b.recv_cq, {1}, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(pair.b_mem.is_all(0, 0, 64));
}

TEST_F(MrTest, NullRegionSwallowsAndYieldsZeros) {
    Mr null(ibv_alloc_null_mr(pd_.get()));
    if (!null && is_unsupported(errno)) GTEST_SKIP() << "no null memory region";
    ASSERT_NE(null, nullptr);
    Pair pair(hca_, pd_.get());
    pair.b_mem.fill(1);
    ASSERT_EQ(
        SendWr(IBV_WR_RDMA_WRITE, 1).sge({0, 64, null->lkey}).remote(pair.b_mem).post(pair.a.qp),
        0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
    EXPECT_TRUE(pair.b_mem.is_all(0, 0, 64));
}

}  // namespace
}  // namespace conformance
