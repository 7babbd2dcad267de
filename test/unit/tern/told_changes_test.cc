// SPDX-License-Identifier: BSD-3-Clause
// How long a change that has been told is kept.
#include "pinning/watch/told_changes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace tern {
namespace {

using Kept = ToldChanges::Kept;

constexpr auto kAllMatter = [](uint64_t, uint64_t) { return true; };
constexpr auto kNoneMatter = [](uint64_t, uint64_t) { return false; };

TEST(ToldChangesTest, OneThatMattersIsKeptForASecond) {
    ToldChanges told;
    EXPECT_EQ(told.kept(), Kept::kNone);
    told.add(1, 2, 10);
    EXPECT_EQ(told.kept(), Kept::kUnexamined);
    told.examine(10, kAllMatter);
    EXPECT_EQ(told.kept(), Kept::kExamined);
    told.expire(10 + ToldChanges::kChange);
    EXPECT_EQ(told.kept(), Kept::kExamined);
    told.expire(11 + ToldChanges::kChange);
    EXPECT_EQ(told.kept(), Kept::kNone);
}

TEST(ToldChangesTest, OneThatIsOfNoImportanceIsForgotten) {
    ToldChanges told;
    for (uint64_t i = 1; i <= 5; ++i) told.add(16 * i, 16 * i + 1, 0);
    std::vector<uint64_t> seen;
    told.examine(0, [&](uint64_t start, uint64_t end) {
        EXPECT_EQ(end, start + 1);
        seen.push_back(start);
        return start == 32;
    });
    EXPECT_EQ(seen, (std::vector<uint64_t>{16, 32, 48, 64, 80}));
    EXPECT_EQ(told.kept(), Kept::kExamined);
    told.add(96, 97, 0);
    EXPECT_EQ(told.kept(), Kept::kUnexamined) << "one of two";
    told.examine(0, [&](uint64_t start, uint64_t) { return start == 96; });
    EXPECT_EQ(told.kept(), Kept::kExamined);
    told.examine(0, kNoneMatter);
    EXPECT_EQ(told.kept(), Kept::kNone);
}

TEST(ToldChangesTest, OneThatIsOverNeedsNoExamination) {
    ToldChanges told;
    told.add(1, 2, 0);
    told.examine(1 + ToldChanges::kChange, [](uint64_t, uint64_t) {
        ADD_FAILURE();
        return true;
    });
    EXPECT_EQ(told.kept(), Kept::kNone);
}

TEST(ToldChangesTest, MoreThanThereArePlacesForAreKeptForASecond) {
    ToldChanges told;
    for (size_t i = 0; i < ToldChanges::kPlaces; ++i) told.add(i, i + 1, 0);
    told.examine(0, kNoneMatter);
    EXPECT_EQ(told.kept(), Kept::kNone) << "each had a place";
    for (size_t i = 0; i <= ToldChanges::kPlaces; ++i) told.add(i, i + 1, 0);
    told.examine(0, kNoneMatter);
    EXPECT_EQ(told.kept(), Kept::kExamined);
    told.expire(ToldChanges::kChange);
    EXPECT_EQ(told.kept(), Kept::kExamined);
    told.expire(1 + ToldChanges::kChange);
    EXPECT_EQ(told.kept(), Kept::kNone);
}

TEST(ToldChangesTest, PlacesOfThoseThatAreOverAreUsedAgain) {
    constexpr int64_t kLater = 1 + ToldChanges::kChange;
    ToldChanges told;
    for (size_t i = 0; i < ToldChanges::kPlaces; ++i) {
        told.add(i, i + 1, 0);
        if (i == 0) told.examine(0, kAllMatter);
    }
    for (size_t i = 0; i < ToldChanges::kPlaces; ++i) told.add(i, i + 1, kLater);
    told.examine(kLater, kNoneMatter);
    EXPECT_EQ(told.kept(), Kept::kNone);
}

TEST(ToldChangesTest, AllCanBeForgotten) {
    ToldChanges told;
    for (size_t i = 0; i < 2 * ToldChanges::kPlaces; ++i) {
        told.add(i, i + 1, 0);
        if (i == 3) told.examine(0, kAllMatter);
    }
    told.clear();
    EXPECT_EQ(told.kept(), Kept::kNone);
    told.add(1, 2, 0);
    EXPECT_EQ(told.kept(), Kept::kUnexamined);
}

// The place of a change that another thread has forgotten may have the next one already.
TEST(ToldChangesTest, AnExaminationDoesNotForgetANewChangeInAnOldPlace) {
    for (const bool matters : {false, true}) {
        ToldChanges told;
        told.add(1, 2, 0);
        told.examine(0, [&](uint64_t start, uint64_t) {
            EXPECT_EQ(start, 1u);
            told.clear();
            told.add(3, 4, 0);
            return matters;
        });
        EXPECT_EQ(told.kept(), Kept::kUnexamined);
        told.examine(0, [](uint64_t start, uint64_t) { return start == 3; });
        EXPECT_EQ(told.kept(), Kept::kExamined);
    }
}

// Threads tell changes and see that each is kept as long as it matters, whatever others do.
TEST(ToldChangesTest, NoneThatMattersIsForgottenWhateverOtherThreadsDo) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(seed);
    constexpr unsigned kTellers = 3;
    constexpr int kRounds = 20000;
    ToldChanges told;
    std::array<std::atomic<bool>, kTellers> matters{};
    std::atomic<unsigned> running{kTellers};
    std::atomic<int64_t> time{1};
    std::atomic<int> lost{0};
    std::mutex lock;
    const auto examine = [&] {
        const std::lock_guard guard(lock);
        // What is read while the place gets another change is of no importance: it must not do
        // anything to that change.
        told.examine(time, [&](uint64_t start, uint64_t end) {
            return end == start + kTellers && matters[start % kTellers];
        });
    };
    std::vector<std::thread> tellers;
    for (unsigned teller = 0; teller < kTellers; ++teller)
        tellers.emplace_back([&, teller] {
            std::mt19937 random(seed + teller);
            for (int i = 0; i < kRounds; ++i) {
                matters[teller] = true;
                for (unsigned count = random() % 20; count > 0; --count)
                    told.add(teller, teller + kTellers, time);
                told.add(teller, teller + kTellers, time);
                if (random() % 4 == 0) std::this_thread::yield();
                lost += told.kept() == Kept::kNone;
                if (random() % 2 == 0) examine();
                lost += told.kept() == Kept::kNone;
                matters[teller] = false;
                if (random() % 8 == 0) told.expire(time);
            }
            --running;
        });
    // Their changes are over only in the end. This thread's are over at once.
    while (running > 0) {
        told.add(7 * kTellers, 8 * kTellers, time - 2 * ToldChanges::kChange);
        told.expire(time);
        examine();
        ++time;
        std::this_thread::yield();
    }
    for (std::thread& teller : tellers) teller.join();
    EXPECT_EQ(lost, 0);
    told.expire(time + 2 * ToldChanges::kChange);
    examine();
    EXPECT_EQ(told.kept(), Kept::kNone) << "the counts are those of what is kept";
    // As many places as there were.
    for (size_t i = 0; i < ToldChanges::kPlaces; ++i) told.add(i, i + 1, time);
    told.examine(time, kNoneMatter);
    EXPECT_EQ(told.kept(), Kept::kNone);
}

// As at the end of the last change under way.
TEST(ToldChangesTest, TheCountsAreRightWhenManyThreadsForgetAll) {
    ToldChanges told;
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 3; ++thread)
        threads.emplace_back([&, thread] {
            for (int i = 0; i < 20000; ++i) {
                for (unsigned count = 0; count <= 4 * thread; ++count) told.add(1, 2, i);
                if (thread == 0) told.examine(i, [&](uint64_t, uint64_t) { return i % 2 == 0; });
                told.clear();
            }
        });
    for (std::thread& thread : threads) thread.join();
    told.clear();
    EXPECT_EQ(told.kept(), Kept::kNone);
}

}  // namespace
}  // namespace tern
