// SPDX-License-Identifier: BSD-3-Clause
// Gets from, and puts to, open memory that are no longer than an active message: one work request
// each, and no transfer.
#include <algorithm>
#include <cstring>

#include "message.h"
#include "transfer.h"

namespace uct_test {
namespace {

constexpr std::size_t kSize = 256 * 1024;
constexpr uint64_t kSeed = 11;

void keep(void* to, const void* data, std::size_t length) {
    std::memcpy(to, data, length);
}

class ShortGetTest : public TernTest {
  protected:
    void SetUp() override {
        fill(far_.part(0, kSize), kSeed);
        b_.handle(1, [](Bytes) {});
        ASSERT_TRUE(accepted(all_, [&] { return am_short(ep_, 1, pattern(0, 8)); }));
        ASSERT_TRUE(flush_wait(all_, ep_));
    }
    uint64_t at(std::size_t there) const { return far_.remote().address + there; }
    ucs_status_t get_bcopy(std::size_t to, std::size_t there, std::size_t length,
                           Completion* completion) {
        return uct_ep_get_bcopy(ep_.get(), keep, near_.data() + to, length, at(there), key_.get(),
                                completion);
    }
    ucs_status_t get(bool zcopy, std::size_t length, std::size_t count, Completion* completion) {
        if (!zcopy) return get_bcopy(0, 0, length, completion);
        return get_zcopy(ep_, pieces(near_, 0, length, count), at(0), key_, completion);
    }
    Counters counters() {
        ep_.reset();
        linger(all_, milliseconds(5));
        return a_.close_and_count();
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    const Group alone_{&a_};
    Declared near_{a_.host(), kSize};
    Declared far_{b_.host(), kSize, UCT_MD_MEM_ACCESS_ALL};
    RemoteKey key_{a_.host(), far_.remote()};
    Endpoint ep_ = a_.connect(b_);
};

TEST_F(ShortGetTest, AnyLengthInAnyPieces) {
    const std::size_t longest = a_.attr().cap.get.max_bcopy;
    uint64_t gets = 0;
    for (const std::size_t length :
         {std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{4096}, longest - 1, longest})
        for (const std::size_t count : {0, 1, 3, 8}) {
            fill(near_.part(0, longest + 64), 0);
            Completion completion;
            ASSERT_TRUE(
                accepted(alone_, [&] { return get(count != 0, length, count, &completion); }));
            ASSERT_TRUE(eventually(alone_, [&] { return completion.calls == 1; })) << length;
            EXPECT_STATUS(UCS_OK, completion.status);
            EXPECT_TRUE(filled(near_.part(0, length), kSeed)) << length << ' ' << count;
            EXPECT_TRUE(filled(near_.part(length, 64), 0, length)) << "behind";
            ++gets;
        }
    const Counters counted = counters();
    EXPECT_EQ(counted["get"], gets);
    EXPECT_EQ(counted["rndv_gets"], 0u);
}

TEST_F(ShortGetTest, LongerOnesAreTransfers) {
    const std::size_t length = a_.attr().cap.get.max_bcopy + 1;
    Completion completion;
    ASSERT_TRUE(accepted(alone_, [&] { return get(true, length, 1, &completion); }));
    ASSERT_TRUE(eventually(alone_, [&] { return completion.calls == 1; }));
    EXPECT_TRUE(filled(near_.part(0, length), kSeed));
    EXPECT_EQ(counters()["rndv_gets"], 1u);
}

// More than the send queue and the send pool hold. Of gets without a completion, a flush tells.
TEST_F(ShortGetTest, ManyAtOnce) {
    constexpr std::size_t kLength = 64;
    fill(near_.part(0, kSize), 0);
    for (std::size_t i = 0; i < kSize; i += kLength) {
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted(alone_, [&] { return status = get_bcopy(i, i, kLength, nullptr); }));
        EXPECT_STATUS(UCS_INPROGRESS, status);
    }
    ASSERT_TRUE(flush_wait(alone_, ep_));
    EXPECT_TRUE(filled(near_.part(0, kSize), kSeed));
}

TEST_F(ShortGetTest, EndsWithTheEndpoint) {
    for (int turns = 0; turns < 4; ++turns) {
        Endpoint ep = a_.connect(b_);
        Completion copied, direct;
        ASSERT_TRUE(accepted(all_, [&] { return am_short(ep, 1, pattern(0, 8)); }));
        ASSERT_TRUE(flush_wait(all_, ep));
        ep_.reset();  // the only user of the connection is to leave it
        ASSERT_TRUE(accepted(alone_, [&] {
            return uct_ep_get_bcopy(ep.get(), keep, near_.data(), 512, at(0), key_.get(), &copied);
        }));
        const uct_iov_t iov = near_.iov(4096, 512);
        ASSERT_TRUE(accepted(alone_, [&] {
            return get_zcopy(ep, {&iov, 1}, at(0), key_, &direct);
        }));
        for (int i = 0; i < turns; ++i) (void)a_.progress();
        ep.reset();
        EXPECT_EQ(copied.calls, 1) << turns;
        EXPECT_EQ(direct.calls, 1) << turns;
        linger(all_, milliseconds(5));
    }
    EXPECT_TRUE(a_.failures().empty());
}

// What follows a fence does not overtake a get.
TEST_F(ShortGetTest, FencesWait) {
    for (uint64_t round = 1; round <= 100; ++round) {
        fill(far_.part(0, 2048), round);
        const auto later = pattern(static_cast<unsigned>(round), 100);
        Completion completion;
        ASSERT_TRUE(accepted(alone_, [&] { return get_bcopy(0, 0, 2048, &completion); }));
        ASSERT_STATUS(UCS_OK,
                      round % 2 == 0 ? uct_ep_fence(ep_.get(), 0) : uct_iface_fence(a_.iface(), 0));
        ASSERT_TRUE(accepted(alone_, [&] { return put_short(ep_, later, at(0), key_); }));
        ASSERT_TRUE(flush_wait(alone_, ep_));
        EXPECT_EQ(completion.calls, 1);
        EXPECT_TRUE(filled(near_.part(0, 2048), round));
        EXPECT_TRUE(same(far_.part(0, 100), later));
    }
}

// The user may use the memory at once.
TEST_F(ShortGetTest, ShortPutsAreCopied) {
    const std::size_t length = a_.attr().cap.put.max_bcopy;
    for (uint64_t round = 1; round <= 50; ++round) {
        fill(near_.part(0, length), round);
        const std::vector<uct_iov_t> from = pieces(near_, 0, length, round % 8 + 1);
        ASSERT_TRUE(accepted(alone_, [&] { return put_zcopy(ep_, from, at(0), key_, nullptr); }));
        fill(near_.part(0, length), 0);
        ASSERT_TRUE(flush_wait(alone_, ep_));
        EXPECT_TRUE(filled(far_.part(0, length), round));
    }
    EXPECT_EQ(counters()["rndv_puts"], 0u);
}

}  // namespace
}  // namespace uct_test
