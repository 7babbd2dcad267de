// SPDX-License-Identifier: BSD-3-Clause
// Object numbers, memory keys, allocation of table entries, and the requester's retries.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "common/seed.h"
#include "softhca/core/handles.h"
#include "softhca/core/key_table.h"
#include "softhca/core/retry.h"
#include "softhca/fabric/pools.h"

namespace softhca {
namespace {

TEST(Handles, NumbersHoldTheirPartsAndDifferByGeneration) {
    std::set<uint32_t> seen;
    for (uint32_t process : {0u, 1u, kMaxProcesses - 1}) {
        for (uint32_t index : {1u, 77u, kMaxObjects - 1}) {
            for (uint32_t generation = 0; generation < ObjectNumber::kGenerations; ++generation) {
                const uint32_t number = ObjectNumber::make(process, index, generation);
                EXPECT_EQ(ObjectNumber::process(number), process);
                EXPECT_EQ(ObjectNumber::index(number), index);
                EXPECT_LT(number, 1u << 24) << "a queue pair number has 24 bits";
                EXPECT_GT(number, 1u) << "0 and 1 are the special queue pairs";
                EXPECT_TRUE(seen.insert(number).second);
            }
        }
    }
    const uint32_t key = KeyNumber::make(kMaxProcesses - 1, kMaxKeys - 1, 0xab);
    EXPECT_EQ(KeyNumber::process(key), kMaxProcesses - 1);
    EXPECT_EQ(KeyNumber::index(key), kMaxKeys - 1);
}

class KeyTest : public testing::Test {
  protected:
    KeyTest() {
        entry_.pd = 3;
        entry_.access = access_flag::kLocalWrite | access_flag::kRemoteRead;
        entry_.start = 0x1000;
        entry_.length = 0x100;
        entry_.host = 0x70001000;
        entry_.key = 42;
    }
    bool check(uint64_t address, uint64_t length, uint32_t need = 0, uint32_t pd = 3,
               uint32_t key = 42, uint32_t qp = 9) {
        return check_key(entry_, key, pd, qp, address, length, need, &host_);
    }
    KeyEntry entry_;
    uint64_t host_ = 0;
};

TEST_F(KeyTest, TranslatesWhatIsInside) {
    EXPECT_TRUE(check(0x1010, 0xf0));
    EXPECT_EQ(host_, 0x70001010u);
}

TEST_F(KeyTest, RefusesEveryByteOutside) {
    EXPECT_FALSE(check(0x0fff, 1));
    EXPECT_FALSE(check(0x1100, 1));
    EXPECT_FALSE(check(0x1000, 0x101));
    EXPECT_FALSE(check(0x1001, 0x100));
    EXPECT_FALSE(check(~uint64_t{0}, 2)) << "address and length wrap around";
    EXPECT_FALSE(check(0x1010, ~uint64_t{0}));
}

TEST_F(KeyTest, RefusesOtherKeysDomainsAndRights) {
    EXPECT_FALSE(check(0x1000, 1, 0, 3, 43));
    EXPECT_FALSE(check(0x1000, 1, 0, 4));
    EXPECT_FALSE(check(0x1000, 1, access_flag::kRemoteWrite));
    EXPECT_TRUE(check(0x1000, 1, access_flag::kRemoteRead));
    entry_.key = 0;
    EXPECT_FALSE(check(0x1000, 1, 0, 3, 0)) << "0 is never a key";
}

TEST_F(KeyTest, TypeTwoWindowsAreForOneQueuePair) {
    entry_.kind = KeyKind::kWindowType2;
    entry_.bound_qp = 9;
    EXPECT_TRUE(check(0x1000, 1, 0, 3, 42, 9));
    EXPECT_FALSE(check(0x1000, 1, 0, 3, 42, 10));
}

TEST(AccessFlags, RemoteWritingNeedsLocalWriting) {
    using namespace access_flag;
    EXPECT_TRUE(access_flags_valid(0));
    EXPECT_TRUE(access_flags_valid(kRemoteRead));
    EXPECT_FALSE(access_flags_valid(kRemoteWrite));
    EXPECT_FALSE(access_flags_valid(kRemoteAtomic));
    EXPECT_TRUE(
        access_flags_valid(kLocalWrite | kRemoteWrite | kRemoteAtomic | kRemoteRead | kMwBind));
    EXPECT_FALSE(access_flags_valid(1u << 12)) << "an unknown flag";
}

TEST(IndexPool, ReusesTheOldestIndexAndNeverZero) {
    IndexPool pool(5);
    for (uint32_t i = 1; i < 5; ++i) EXPECT_EQ(pool.allocate(), i);
    EXPECT_EQ(pool.allocate(), std::nullopt);
    pool.release(3);
    pool.release(1);
    EXPECT_EQ(pool.allocate(), 3u);
    EXPECT_EQ(pool.allocate(), 1u);
    EXPECT_EQ(pool.allocate(), std::nullopt);
}

TEST(ArenaHeap, NeverOverlapsAndMergesWhatIsFreed) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    constexpr uint64_t kBegin = 4096;
    constexpr uint64_t kEnd = kBegin + (1 << 16);
    ArenaHeap heap(kBegin, kEnd);
    std::map<uint64_t, uint64_t> held;
    for (int step = 0; step < 5000; ++step) {
        if (random() % 2 == 0) {
            const uint64_t bytes = 1 + random() % 3000;
            if (const uint64_t offset = heap.allocate(bytes)) {
                ASSERT_GE(offset, kBegin);
                ASSERT_LE(offset + bytes, kEnd);
                const auto after = held.lower_bound(offset);
                ASSERT_TRUE(after == held.end() || offset + bytes <= after->first);
                ASSERT_TRUE(after == held.begin() ||
                            std::prev(after)->first + std::prev(after)->second <= offset);
                held.emplace(offset, bytes);
            }
        } else if (!held.empty()) {
            auto it = held.begin();
            std::advance(it, random() % held.size());
            heap.release(it->first);
            held.erase(it);
        }
    }
    for (const auto& [offset, bytes] : held) heap.release(offset);
    EXPECT_EQ(heap.allocate(kEnd - kBegin), kBegin) << "all of it in one piece again";
    EXPECT_EQ(heap.allocate(1), 0u);
}

TEST(Retry, GivesUpAfterTheRetriesAndNotBefore) {
    RetryState retry;
    retry.configure(2, 1, 1000, {});
    uint64_t until = 0;
    EXPECT_TRUE(retry.on_no_response(10, &until));
    EXPECT_EQ(until, 1010u);
    EXPECT_TRUE(retry.on_no_response(1010, &until));
    EXPECT_TRUE(retry.on_no_response(2010, &until));
    EXPECT_FALSE(retry.on_no_response(3010, &until)) << "the first try and two more";
}

TEST(Retry, CountsNotReadyApartAndStartsAnewAfterProgress) {
    RetryState retry;
    retry.configure(0, 1, 1000, {});
    uint64_t until = 0;
    EXPECT_TRUE(retry.on_rnr(0, 50, &until));
    EXPECT_EQ(until, 50u);
    retry.progress();
    EXPECT_TRUE(retry.on_rnr(100, 50, &until));
    EXPECT_FALSE(retry.on_rnr(150, 50, &until));
}

TEST(Retry, SevenNotReadyRetriesAreForEver) {
    RetryState retry;
    retry.configure(0, 7, 1000, {});
    uint64_t until = 0;
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(retry.on_rnr(0, 50, &until));
}

TEST(Retry, SevenRetriesAreForEverOnSomeDevices) {
    for (const bool unlimited : {false, true}) {
        RetryState retry;
        retry.configure(7, 0, 1000, {.unlimited = unlimited});
        uint64_t until = 0;
        int tries = 1;
        while (tries < 1000 && retry.on_no_response(0, &until)) ++tries;
        EXPECT_EQ(tries, unlimited ? 1000 : 9) << "the first try, and seven retries";
        retry.configure(6, 0, 1000, {.unlimited = unlimited});
        for (int i = 0; i < 7; ++i) ASSERT_TRUE(retry.on_no_response(0, &until));
        EXPECT_FALSE(retry.on_no_response(0, &until));
    }
}

TEST(Retry, TimersCountInSteps) {
    RetryState retry;
    retry.configure(7, 7, 1001, {.step = 1000});
    uint64_t until = 0;
    EXPECT_TRUE(retry.on_no_response(5, &until));
    EXPECT_EQ(until, 2005u);
    EXPECT_TRUE(retry.on_rnr(5, 1, &until));
    EXPECT_EQ(until, 1005u);
    EXPECT_TRUE(retry.on_rnr(5, 3000, &until));
    EXPECT_EQ(until, 3005u);
}

TEST(Retry, TimeoutZeroWaitsForEver) {
    RetryState retry;
    retry.configure(0, 0, 0, {});
    uint64_t until = 0;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(retry.on_no_response(5, &until));
        ASSERT_GT(until, 5u);
    }
}

}  // namespace
}  // namespace softhca
