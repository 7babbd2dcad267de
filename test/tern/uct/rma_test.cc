// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets of open memory that are one work request each, and no transfers: those no longer
// than an active message, and those whose user's memory is pinned.
#include <algorithm>
#include <cstring>

#include "message.h"
#include "transfer.h"

namespace uct_test {
namespace rma_test {

constexpr std::size_t kSize = 256 * 1024;
constexpr uint64_t kSeed = 11;

void keep(void* to, const void* data, std::size_t length) {
    std::memcpy(to, data, length);
}

class RmaTest : public TernTest {
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
    // A new endpoint, whose connection is up and has no other user.
    Endpoint only_endpoint() {
        Endpoint ep = a_.connect(b_);
        EXPECT_TRUE(accepted(all_, [&] { return am_short(ep, 1, pattern(0, 8)); }));
        EXPECT_TRUE(flush_wait(all_, ep));
        ep_.reset();
        return ep;
    }
    // Begins two operations, and destroys their endpoint after some calls of progress.
    template <class One, class Other>
    void end_amid(Endpoint& ep, int turns, One&& one, Other&& other) {
        Completion first, second;
        ASSERT_TRUE(accepted(alone_, [&] { return one(&first); }));
        ASSERT_TRUE(accepted(alone_, [&] { return other(&second); }));
        for (int i = 0; i < turns; ++i) (void)a_.progress();
        ep.reset();
        EXPECT_EQ(first.calls, 1) << turns;
        EXPECT_EQ(second.calls, 1) << turns;
        linger(all_, milliseconds(5));
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

TEST_F(RmaTest, AnyLengthInAnyPieces) {
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

TEST_F(RmaTest, LongerOnesAreTransfersUntilTheMemoryIsPinned) {
    const std::size_t length = a_.attr().cap.get.max_bcopy + 1;
    const uct_iov_t iov = near_.iov(0, length);
    for (uint64_t round = 1; round <= 20; ++round) {
        fill(far_.part(0, length), round);
        ASSERT_STATUS(UCS_OK, get_wait(alone_, ep_, {&iov, 1}, at(0), key_));
        EXPECT_TRUE(filled(near_.part(0, length), round));
        fill(near_.part(0, length), ~round);
        ASSERT_STATUS(UCS_OK, put_wait(alone_, ep_, {&iov, 1}, at(0), key_));
        ASSERT_TRUE(flush_wait(alone_, ep_));
        EXPECT_TRUE(filled(far_.part(0, length), ~round));
    }
    const Counters counted = counters();
    EXPECT_GE(counted["rndv_gets"], 1u);
    EXPECT_LE(counted["rndv_gets"], 3u);
    EXPECT_LE(counted["rndv_puts"], 3u);
}

// Operations in place end with their endpoint. Their memory may be unmapped then.
TEST_F(RmaTest, InPlaceEndsWithTheEndpoint) {
    const std::size_t length = 64 * 1024;
    for (int turns = 0; turns < 4; ++turns) {
        Endpoint ep = only_endpoint();
        Declared buffer(a_.host(), length);
        const uct_iov_t iov = buffer.iov(0, length);
        for (int use = 0; use < 4; ++use)
            ASSERT_STATUS(UCS_OK, get_wait(all_, ep, {&iov, 1}, at(0), key_));
        end_amid(
            ep, turns,
            [&](Completion* put) {
                return put_zcopy(ep, {&iov, 1}, at(length), key_, put);
            },
            [&](Completion* get) {
                return get_zcopy(ep, {&iov, 1}, at(length), key_, get);
            });
    }
    EXPECT_TRUE(a_.failures().empty());
}

// More than the send queue and the send pool hold. Of gets without a completion, a flush tells.
TEST_F(RmaTest, ManyAtOnce) {
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

TEST_F(RmaTest, EndsWithTheEndpoint) {
    const uct_iov_t iov = near_.iov(4096, 512);
    for (int turns = 0; turns < 4; ++turns) {
        Endpoint ep = only_endpoint();
        end_amid(
            ep, turns,
            [&](Completion* copied) {
                return uct_ep_get_bcopy(ep.get(), keep, near_.data(), 512, at(0), key_.get(),
                                        copied);
            },
            [&](Completion* direct) {
                return get_zcopy(ep, {&iov, 1}, at(0), key_, direct);
            });
    }
    EXPECT_TRUE(a_.failures().empty());
}

// What follows a fence does not overtake a get.
TEST_F(RmaTest, FencesWait) {
    const std::size_t length = std::min<std::size_t>(100, a_.attr().cap.put.max_short);
    for (uint64_t round = 1; round <= 100; ++round) {
        fill(far_.part(0, 2048), round);
        const auto later = pattern(static_cast<unsigned>(round), length);
        Completion completion;
        ASSERT_TRUE(accepted(alone_, [&] { return get_bcopy(0, 0, 2048, &completion); }));
        ASSERT_STATUS(UCS_OK,
                      round % 2 == 0 ? uct_ep_fence(ep_.get(), 0) : uct_iface_fence(a_.iface(), 0));
        ASSERT_TRUE(accepted(alone_, [&] { return put_short(ep_, later, at(0), key_); }));
        ASSERT_TRUE(flush_wait(alone_, ep_));
        EXPECT_EQ(completion.calls, 1);
        EXPECT_TRUE(filled(near_.part(0, 2048), round));
        EXPECT_TRUE(same(far_.part(0, length), later));
    }
}

// The user may use the memory at once.
TEST_F(RmaTest, ShortPutsAreCopied) {
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

}  // namespace rma_test
}  // namespace uct_test
