// SPDX-License-Identifier: BSD-3-Clause
// Remote compare-and-swap and fetch-and-add.
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

class AtomicTest : public VerbsTest {
  protected:
    void SetUp() override {
        if (!hca_.has_atomics()) GTEST_SKIP() << "no atomics";
    }

    // Runs one atomic on the word at `offset` of b_mem; the old value comes to word 0 of a_mem.
    static ibv_wc run(Pair& pair, ibv_wr_opcode op, std::size_t offset, uint64_t compare_add,
                      uint64_t swap = 0) {
        SendWr wr(op, 1);
        wr.sge(pair.a_mem.sge(0, 8))
            .atomic(pair.b_mem.addr(offset), pair.b_mem.rkey(), compare_add, swap);
        if (int rc = wr.post(pair.a.qp)) fail("post_send: " + std::to_string(rc));
        return poll_one(pair.a.send_cq);
    }
};

TEST_F(AtomicTest, CompareAndSwapSwapsOnlyWhenEqual) {
    Pair pair(hca_, pd_.get());
    pair.b_mem.word(1) = 0x1122334455667788;
    const ibv_wc wc = run(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 0x1122334455667788, 42);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.opcode, IBV_WC_COMP_SWAP);
    EXPECT_EQ(wc.byte_len, 8u);
    EXPECT_EQ(pair.b_mem.word(1), 42u);
    EXPECT_EQ(pair.a_mem.word(0), 0x1122334455667788u) << "the old value comes back";
    ASSERT_TRUE(is_done(run(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 43, 44), 1));
    EXPECT_EQ(pair.b_mem.word(1), 42u);
    EXPECT_EQ(pair.a_mem.word(0), 42u);
    EXPECT_EQ(pair.b_mem.word(0), 0u);
    EXPECT_EQ(pair.b_mem.word(2), 0u);
}

TEST_F(AtomicTest, FetchAndAddWrapsAround) {
    Pair pair(hca_, pd_.get());
    pair.b_mem.word(3) = UINT64_MAX - 1;
    const ibv_wc wc = run(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 24, 5);
    ASSERT_TRUE(is_done(wc, 1));
    EXPECT_EQ(wc.opcode, IBV_WC_FETCH_ADD);
    EXPECT_EQ(pair.b_mem.word(3), 3u);
    EXPECT_EQ(pair.a_mem.word(0), UINT64_MAX - 1);
}

TEST_F(AtomicTest, MisalignedAddressIsAnInvalidRequest) {
    for (ibv_wr_opcode op : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        Pair pair(hca_, pd_.get(), quick());
        SendWr wr(op, 1);
        wr.sge(pair.a_mem.sge(0, 8)).atomic(pair.b_mem.addr(4), pair.b_mem.rkey(), 0, 1);
        if (wr.post(pair.a.qp)) continue;  // some devices refuse the post
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_REM_INV_REQ_ERR));
        EXPECT_TRUE(pair.b_mem.is_all(0, 0, 16));
        EXPECT_TRUE(reaches(pair.b.qp, IBV_QPS_ERR));
    }
}

TEST_F(AtomicTest, AddsOfSeveralQueuePairsAddUp) {
    constexpr int kPairs = 3;
    constexpr int kAdds = 300;
    Region counter(pd_.get(), 4096);
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int i = 0; i < kPairs; ++i) pairs.push_back(std::make_unique<Pair>(hca_, pd_.get()));
    std::vector<std::thread> threads;
    for (auto& pair : pairs) {
        threads.emplace_back([&counter, &pair] {
            for (int i = 0; i < kAdds; ++i) {
                EXPECT_EQ(SendWr(IBV_WR_ATOMIC_FETCH_AND_ADD, i)
                              .sge(pair->a_mem.sge(0, 8))
                              .atomic(counter.addr(), counter.rkey(), 1)
                              .post(pair->a.qp),
                          0);
                EXPECT_TRUE(next_are(pair->a.send_cq, {static_cast<uint64_t>(i)}));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counter.word(0), uint64_t{kPairs} * kAdds);
}

TEST_F(AtomicTest, EverySwapWinsOnce) {
    // Two queue pairs compete for a lock word; exactly one takes it in each round.
    Pair first(hca_, pd_.get());
    Pair second(hca_, pd_.get());
    Region lock(pd_.get(), 4096);
    for (uint64_t round = 1; round <= 100; ++round) {
        lock.word(0) = 0;
        for (Pair* pair : {&first, &second}) {
            ASSERT_EQ(SendWr(IBV_WR_ATOMIC_CMP_AND_SWP, round)
                          .sge(pair->a_mem.sge(0, 8))
                          .atomic(lock.addr(), lock.rkey(), 0, pair == &first ? 1 : 2)
                          .post(pair->a.qp),
                      0);
        }
        for (Pair* pair : {&first, &second}) ASSERT_TRUE(next_are(pair->a.send_cq, {round}));
        const bool first_won = first.a_mem.word(0) == 0;
        const bool second_won = second.a_mem.word(0) == 0;
        EXPECT_NE(first_won, second_won) << "round " << round;
        EXPECT_EQ(lock.word(0), first_won ? 1u : 2u);
    }
}

TEST_F(AtomicTest, LocalBufferMustHoldTheResult) {
    Pair pair(hca_, pd_.get(), quick());
    SendWr wr(IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
    wr.sge(pair.a_mem.sge(0, 4)).atomic(pair.b_mem.addr(), pair.b_mem.rkey(), 1);
    if (wr.post(pair.a.qp) == 0) {
        EXPECT_NE(poll_one(pair.a.send_cq).status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(pair.a_mem.word(0), 0u);
}

TEST_F(AtomicTest, ResultMayBeScattered) {
    Pair pair(hca_, pd_.get());
    pair.b_mem.word(0) = 0x8877665544332211;
    ASSERT_EQ(SendWr(IBV_WR_ATOMIC_FETCH_AND_ADD, 1)
                  .sge(pair.a_mem.sge(0, 3))
                  .sge(pair.a_mem.sge(100, 5))
                  .atomic(pair.b_mem.addr(), pair.b_mem.rkey(), 0)
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
    const uint64_t expected = 0x8877665544332211;
    EXPECT_EQ(std::memcmp(pair.a_mem.data(), &expected, 3), 0);
    EXPECT_EQ(
        std::memcmp(pair.a_mem.data() + 100, reinterpret_cast<const uint8_t*>(&expected) + 3, 5),
        0);
}

}  // namespace
}  // namespace conformance
