// SPDX-License-Identifier: BSD-3-Clause
// Memory of the device, and regions of it.
#include <cerrno>
#include <memory>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

struct FreeDm {
    void operator()(ibv_dm* dm) const {
        if (const int rc = ibv_free_dm(dm)) ADD_FAILURE() << "ibv_free_dm: " << rc;
    }
};
using Dm = std::unique_ptr<ibv_dm, FreeDm>;

class DeviceMemoryTest : public VerbsTest {
  protected:
    static constexpr size_t kBytes = 4096;
    static constexpr unsigned kAccess = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
                                        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

    void SetUp() override {
        ibv_device_attr_ex attr{};
        if (ibv_query_device_ex(hca_.get(), nullptr, &attr) != 0 || attr.max_dm_size < 2 * kBytes)
            GTEST_SKIP() << "no device memory";
        most_ = attr.max_dm_size;
    }

    Dm allocate(size_t length, uint32_t comp_mask = 0) {
        ibv_alloc_dm_attr attr{.length = length, .log_align_req = 0, .comp_mask = comp_mask};
        errno = 0;
        return Dm(ibv_alloc_dm(hca_.get(), &attr));
    }

    Mr region_of(const Dm& dm, uint64_t offset, size_t length, unsigned access = kAccess) {
        errno = 0;
        return Mr(ibv_reg_dm_mr(pd_.get(), dm.get(), offset, length, access));
    }

    static std::vector<uint8_t> pattern(size_t length, unsigned seed) {
        std::vector<uint8_t> bytes(length);
        for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + seed);
        return bytes;
    }

    static void put(const Dm& dm, uint64_t offset, const std::vector<uint8_t>& bytes) {
        ASSERT_EQ(ibv_memcpy_to_dm(dm.get(), offset, bytes.data(), bytes.size()), 0);
    }

    static std::vector<uint8_t> get(const Dm& dm, uint64_t offset, size_t length) {
        std::vector<uint8_t> bytes(length);
        EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), dm.get(), offset, length), 0);
        return bytes;
    }

    size_t most_ = 0;
};

TEST_F(DeviceMemoryTest, WhatIsCopiedInComesOut) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    put(dm, 0, pattern(kBytes, 1));
    put(dm, 400, pattern(100, 2));
    EXPECT_EQ(get(dm, 400, 100), pattern(100, 2));
    std::vector<uint8_t> expected = pattern(kBytes, 1);
    expected.resize(400);
    EXPECT_EQ(get(dm, 0, 400), expected);
}

TEST_F(DeviceMemoryTest, PiecesAreApart) {
    const Dm first = allocate(kBytes);
    const Dm second = allocate(kBytes);
    ASSERT_TRUE(first && second);
    put(first, 0, pattern(kBytes, 1));
    put(second, 0, pattern(kBytes, 2));
    EXPECT_EQ(get(first, 0, kBytes), pattern(kBytes, 1));
    EXPECT_EQ(get(second, 0, kBytes), pattern(kBytes, 2));
}

TEST_F(DeviceMemoryTest, MoreThanThereIsIsRefused) {
    EXPECT_EQ(allocate(most_ + 4), nullptr);
    EXPECT_NE(errno, 0);
    EXPECT_EQ(allocate(~size_t{0}), nullptr);
    EXPECT_NE(errno, 0);
    std::vector<Dm> all;
    while (Dm dm = allocate(most_ / 2)) {
        all.push_back(std::move(dm));
        ASSERT_LE(all.size(), 64u) << "what is allocated is not counted";
    }
    EXPECT_NE(errno, 0);
}

TEST_F(DeviceMemoryTest, UnknownAttributesAreRefused) {
    EXPECT_EQ(allocate(kBytes, 0x40), nullptr);
    EXPECT_NE(errno, 0);
}

TEST_F(DeviceMemoryTest, FreedMemoryCanBeHadAgain) {
    for (int i = 0; i < 100; ++i) ASSERT_NE(allocate(most_ / 2), nullptr) << i;
}

TEST_F(DeviceMemoryTest, CopiesBeyondTheEndAreRefused) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    std::vector<uint8_t> bytes(2 * kBytes);
    const std::pair<uint64_t, size_t> ranges[] = {
        {0, kBytes + 4}, {kBytes, 4}, {kBytes + 4, 0}, {4, kBytes}, {~uint64_t{3}, 8}};
    for (const auto& [offset, length] : ranges) {
        EXPECT_NE(ibv_memcpy_to_dm(dm.get(), offset, bytes.data(), length), 0) << offset;
        EXPECT_NE(ibv_memcpy_from_dm(bytes.data(), dm.get(), offset, length), 0) << offset;
    }
}

TEST_F(DeviceMemoryTest, CopiesAreOfWholeWords) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    uint8_t bytes[8] = {};
    for (const auto& [offset, length] : {std::pair{1, 4}, {0, 3}, {2, 2}}) {
        EXPECT_NE(ibv_memcpy_to_dm(dm.get(), offset, bytes, length), 0) << offset;
        EXPECT_NE(ibv_memcpy_from_dm(bytes, dm.get(), offset, length), 0) << offset;
    }
}

TEST_F(DeviceMemoryTest, IsBusyWhileItHasARegion) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    const Mr mr = region_of(dm, 0, kBytes);
    ASSERT_NE(mr, nullptr);
    EXPECT_NE(ibv_free_dm(dm.get()), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

TEST_F(DeviceMemoryTest, RegionBeyondTheEndIsRefused) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    EXPECT_EQ(region_of(dm, 0, kBytes + 4), nullptr);
    EXPECT_NE(errno, 0);
    EXPECT_EQ(region_of(dm, 4, kBytes), nullptr);
    EXPECT_EQ(region_of(dm, kBytes + 4, 4), nullptr);
}

TEST_F(DeviceMemoryTest, RegionsAreAddressedFromZeroOnly) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    EXPECT_EQ(region_of(dm, 0, kBytes, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_NE(errno, 0);
}

TEST_F(DeviceMemoryTest, RegionsCannotBeRegisteredAnew) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    const Mr mr = region_of(dm, 0, kBytes);
    ASSERT_NE(mr, nullptr);
    EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED),
              0);
}

TEST_F(DeviceMemoryTest, IsWrittenAndReadFromAfar) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    const Mr mr = region_of(dm, 1024, 2048);
    ASSERT_NE(mr, nullptr);
    Pair pair(hca_, pd_.get());
    pair.a_mem.fill(3, 0, 1000);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(pair.a_mem.sge(0, 1000))
                  .remote(16, mr->rkey)
                  .post(pair.a.qp),
              0);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 2)
                  .sge(pair.a_mem.sge(4000, 1000))
                  .remote(16, mr->rkey)
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1, 2}));
    EXPECT_TRUE(pair.a_mem.holds(3, 4000, 1000));
    EXPECT_EQ(get(dm, 1024 + 16, 1000),
              std::vector<uint8_t>(pair.a_mem.data(), pair.a_mem.data() + 1000));
}

TEST_F(DeviceMemoryTest, SendsAndReceivesUseIt) {
    const Dm source = allocate(kBytes);
    const Dm target = allocate(kBytes);
    ASSERT_TRUE(source && target);
    const Mr from = region_of(source, 0, kBytes);
    const Mr to = region_of(target, 0, kBytes);
    ASSERT_TRUE(from && to);
    put(source, 0, pattern(kBytes, 5));
    Pair pair(hca_, pd_.get());
    ASSERT_EQ(RecvWr(1).sge({100, 2000, to->lkey}).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge({0, 1500, from->lkey}).post(pair.a.qp), 0);
    ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
    ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
    EXPECT_EQ(get(target, 100, 1500 / 4 * 4), pattern(1500 / 4 * 4, 5));
}

TEST_F(DeviceMemoryTest, AccessOutsideOfARegionIsRefused) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    const Mr mr = region_of(dm, 0, 1024);
    ASSERT_NE(mr, nullptr);
    put(dm, 0, pattern(kBytes, 1));
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge(pair.a_mem.sge(0, 8))
                  .remote(1020, mr->rkey)
                  .post(pair.a.qp),
              0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_REM_ACCESS_ERR));
    EXPECT_EQ(get(dm, 0, kBytes), pattern(kBytes, 1));
}

TEST_F(DeviceMemoryTest, RegionKeepsItsRights) {
    const Dm dm = allocate(kBytes);
    ASSERT_NE(dm, nullptr);
    const Mr mr = region_of(dm, 0, kBytes, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ);
    ASSERT_NE(mr, nullptr);
    Pair pair(hca_, pd_.get(), quick());
    ASSERT_EQ(
        SendWr(IBV_WR_RDMA_WRITE, 1).sge(pair.a_mem.sge(0, 8)).remote(0, mr->rkey).post(pair.a.qp),
        0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_REM_ACCESS_ERR));
}

}  // namespace
}  // namespace conformance
