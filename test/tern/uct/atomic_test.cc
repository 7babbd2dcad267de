// SPDX-License-Identifier: BSD-3-Clause
// 64-bit atomic operations by the device.
#include <algorithm>
#include <deque>

#include "transfer.h"

namespace uct_test {
namespace atomic_test {

constexpr std::size_t kSize = 4096;

class AtomicTest : public testing::Test {
  protected:
    void SetUp() override {
        if ((a_.attr().cap.atomic64.fop_flags & UCS_BIT(UCT_ATOMIC_OP_CSWAP)) == 0)
            GTEST_SKIP() << "the device has no atomics";
    }
    uint64_t& word(std::size_t index) { return reinterpret_cast<uint64_t*>(memory_.data())[index]; }
    uint64_t at(std::size_t index) const { return remote_.address + index * 8; }
    ucs_status_t add(const Endpoint& ep, uint64_t value, uint64_t to) {
        return uct_ep_atomic64_post(ep.get(), UCT_ATOMIC_OP_ADD, value, to, key_.get());
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Declared memory_{b_.host(), kSize, UCT_MD_MEM_ACCESS_ALL};
    const Remote remote_ = memory_.remote();
    RemoteKey key_{a_.host(), remote_};
    Endpoint ep_ = a_.connect(b_);
};

TEST_F(AtomicTest, WhatIsOffered) {
    EXPECT_EQ(a_.attr().cap.atomic64.op_flags, UCS_BIT(UCT_ATOMIC_OP_ADD));
    EXPECT_EQ(a_.attr().cap.atomic64.fop_flags,
              UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_CSWAP));
    EXPECT_EQ(a_.attr().cap.atomic32.op_flags, 0u);
    EXPECT_EQ(a_.attr().cap.atomic32.fop_flags, 0u);
    EXPECT_TRUE(a_.has(UCT_IFACE_FLAG_ATOMIC_DEVICE));
}

TEST_F(AtomicTest, FetchesAndAdds) {
    word(3) = 40;
    uint64_t before = 0;
    Completion completion;
    ASSERT_TRUE(accepted(all_, [&] {
        return uct_ep_atomic64_fetch(ep_.get(), UCT_ATOMIC_OP_ADD, 2, &before, at(3), key_.get(),
                                     &completion);
    }));
    ASSERT_TRUE(eventually(all_, [&] { return completion.calls == 1; }));
    EXPECT_STATUS(UCS_OK, completion.status);
    EXPECT_EQ(before, 40u);
    EXPECT_EQ(word(3), 42u);
    EXPECT_EQ(word(2), 0u);
    EXPECT_EQ(word(4), 0u);
}

// There are no more words for old values: the request waits until some come back. UCX tries again
// at once, without progress, what is not taken into the queue.
TEST_F(AtomicTest, ExhaustedOperationsWait) {
    if (conformance::Hca().attr().max_qp_wr < 16384) GTEST_SKIP() << "queues are full before";
    Entity deep(Settings{{"TX_QUEUE_LEN", "16384"}, {"RX_QUEUE_LEN", "512"}});
    const Endpoint ep = deep.connect(b_);
    const Group all{&deep, &b_};
    const RemoteKey key{deep.host(), remote_};
    const auto add_one = [&] {
        return uct_ep_atomic64_post(ep.get(), UCT_ATOMIC_OP_ADD, 1, at(7), key.get());
    };
    word(7) = 0;
    ASSERT_TRUE(accepted(all, add_one));
    ASSERT_TRUE(eventually(all, [&] { return word(7) == 1; }));
    uint64_t added = 1;
    while (add_one() == UCS_OK) ++added;
    Pending request([&] {
        const ucs_status_t status = add_one();
        added += status == UCS_OK;
        return status;
    });
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep.get(), &request, 0));
    const uint64_t before = added;
    EXPECT_TRUE(eventually(all, [&] { return added > before; }));
    EXPECT_TRUE(eventually(all, [&] { return word(7) == added; }));
}

TEST_F(AtomicTest, ComparesAndSwaps) {
    word(0) = 7;
    for (const uint64_t compare : {8, 7}) {
        uint64_t before = 0;
        Completion completion;
        ASSERT_TRUE(accepted(all_, [&] {
            return uct_ep_atomic_cswap64(ep_.get(), compare, 100, at(0), key_.get(), &before,
                                         &completion);
        }));
        ASSERT_TRUE(eventually(all_, [&] { return completion.calls == 1; }));
        EXPECT_EQ(before, 7u);
        EXPECT_EQ(word(0), compare == 7 ? 100u : 7u);
    }
}

// Two interfaces post more operations than there is room for, with and without results.
TEST_F(AtomicTest, NoneIsLostOrDoneTwice) {
    Entity c;
    const Group all{&a_, &b_, &c};
    const RemoteKey key(c.host(), remote_);
    const Endpoint other = c.connect(b_);
    constexpr std::size_t kEach = 3000;
    std::deque<Completion> completions(2 * kEach);
    std::vector<uint64_t> results(2 * kEach);
    for (std::size_t i = 0; i < kEach; ++i) {
        for (const bool mine : {true, false}) {
            const Endpoint& ep = mine ? ep_ : other;
            const RemoteKey& its = mine ? key_ : key;
            const std::size_t slot = 2 * i + mine;
            ASSERT_TRUE(accepted(all, [&] {
                return uct_ep_atomic64_fetch(ep.get(), UCT_ATOMIC_OP_ADD, 1, &results[slot], at(1),
                                             its.get(), &completions[slot]);
            }));
            ASSERT_TRUE(accepted(all, [&] {
                return uct_ep_atomic64_post(ep.get(), UCT_ATOMIC_OP_ADD, 3, at(2), its.get());
            }));
        }
    }
    ASSERT_TRUE(flush_wait(all, ep_));
    ASSERT_TRUE(flush_wait(all, other));
    for (const Completion& completion : completions) {
        ASSERT_EQ(completion.calls, 1);
        ASSERT_STATUS(UCS_OK, completion.status);
    }
    EXPECT_EQ(word(1), 2 * kEach);
    EXPECT_EQ(word(2), 6 * kEach);
    std::ranges::sort(results);
    for (std::size_t i = 0; i < results.size(); ++i) ASSERT_EQ(results[i], i);
}

// A put after a fence must not overtake the fetch before it.
TEST_F(AtomicTest, FenceOrdersWhatFollows) {
    for (uint64_t i = 1; i <= 500; ++i) {
        word(5) = i;
        uint64_t before = 0;
        const uint64_t later = 0;
        Completion completion;
        ASSERT_TRUE(accepted(all_, [&] {
            return uct_ep_atomic64_fetch(ep_.get(), UCT_ATOMIC_OP_ADD, 1, &before, at(5),
                                         key_.get(), &completion);
        }));
        EXPECT_STATUS(UCS_OK,
                      i % 2 != 0 ? uct_ep_fence(ep_.get(), 0) : uct_iface_fence(a_.iface(), 0));
        ASSERT_TRUE(accepted(all_, [&] {
            return put_short(ep_, {reinterpret_cast<const std::byte*>(&later), 8}, at(5), key_);
        }));
        ASSERT_TRUE(flush_wait(all_, ep_));
        EXPECT_EQ(completion.calls, 1);
        EXPECT_EQ(before, i);
        EXPECT_EQ(word(5), 0u);
    }
}

TEST_F(AtomicTest, WhatIsNotOfferedIsRefused) {
    uint64_t result = 0;
    for (const uct_atomic_op_t op :
         {UCT_ATOMIC_OP_AND, UCT_ATOMIC_OP_OR, UCT_ATOMIC_OP_XOR, UCT_ATOMIC_OP_SWAP}) {
        EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                      uct_ep_atomic64_post(ep_.get(), op, 1, at(0), key_.get()));
        EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                      uct_ep_atomic64_fetch(ep_.get(), op, 1, &result, at(0), key_.get(), nullptr));
    }
    uint32_t half = 0;
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                  uct_ep_atomic32_post(ep_.get(), UCT_ATOMIC_OP_ADD, 1, at(0), key_.get()));
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, uct_ep_atomic32_fetch(ep_.get(), UCT_ATOMIC_OP_ADD, 1, &half,
                                                             at(0), key_.get(), nullptr));
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                  uct_ep_atomic_cswap32(ep_.get(), 0, 1, at(0), key_.get(), &half, nullptr));
    EXPECT_TRUE(a_.failures().empty());
}

// Only the owner's processor could access this memory.
TEST_F(AtomicTest, OnMemoryThatIsNotOpen) {
    if (!is_tern()) GTEST_SKIP() << "only Tern has such memory";
    const Declared closed(b_.host(), kSize);
    const RemoteKey key(a_.host(), closed.remote());
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, uct_ep_atomic64_post(ep_.get(), UCT_ATOMIC_OP_ADD, 1,
                                                            closed.remote().address, key.get()));
    EXPECT_TRUE(a_.failures().empty());
}

// As with puts, an error ends the endpoint, and all operations are told.
TEST_F(AtomicTest, BehindTheEnd) {
    uint64_t result = 5;
    Completion completion;
    ASSERT_TRUE(accepted(all_, [&] { return add(ep_, 1, at(0)); }));
    ASSERT_TRUE(flush_wait(all_, ep_));
    ASSERT_TRUE(accepted(all_, [&] {
        return uct_ep_atomic64_fetch(ep_.get(), UCT_ATOMIC_OP_ADD, 1, &result, at(kSize / 8),
                                     key_.get(), &completion);
    }));
    ASSERT_TRUE(eventually(all_, [&] { return completion.calls == 1 && a_.failures(ep_) == 1; }));
    EXPECT_NE(completion.status, UCS_OK);
    EXPECT_EQ(result, 5u);
    ep_ = a_.connect(b_);
    ASSERT_TRUE(accepted(all_, [&] { return add(ep_, 1, at(0)); }));
    ASSERT_TRUE(flush_wait(all_, ep_));
    EXPECT_EQ(word(0), 2u);
}

}  // namespace atomic_test
}  // namespace uct_test
