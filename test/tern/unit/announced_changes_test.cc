// SPDX-License-Identifier: BSD-3-Clause
// How long an announced change is kept.
#include "tern/pinning/watch/announced_changes.h"
#include "common/seed.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace tern {
namespace {

using Kept = AnnouncedChanges::Kept;

constexpr auto kAllMatter = [](uint64_t, uint64_t) { return true; };
constexpr auto kNoneMatter = [](uint64_t, uint64_t) { return false; };

TEST(AnnouncedChangesTest, OneThatMattersIsKeptForASecond) {
    AnnouncedChanges changes;
    EXPECT_EQ(changes.kept(), Kept::kNone);
    changes.add(1, 2, 10);
    EXPECT_EQ(changes.kept(), Kept::kUnexamined);
    changes.examine(10, kAllMatter);
    EXPECT_EQ(changes.kept(), Kept::kExamined);
    changes.expire(10 + AnnouncedChanges::kChange);
    EXPECT_EQ(changes.kept(), Kept::kExamined);
    changes.expire(11 + AnnouncedChanges::kChange);
    EXPECT_EQ(changes.kept(), Kept::kNone);
}

TEST(AnnouncedChangesTest, OneThatIsOfNoImportanceIsForgotten) {
    AnnouncedChanges changes;
    for (uint64_t i = 1; i <= 5; ++i) changes.add(16 * i, 16 * i + 1, 0);
    std::vector<uint64_t> seen;
    changes.examine(0, [&](uint64_t start, uint64_t end) {
        EXPECT_EQ(end, start + 1);
        seen.push_back(start);
        return start == 32;
    });
    EXPECT_EQ(seen, (std::vector<uint64_t>{16, 32, 48, 64, 80}));
    EXPECT_EQ(changes.kept(), Kept::kExamined);
    changes.add(96, 97, 0);
    EXPECT_EQ(changes.kept(), Kept::kUnexamined) << "one of two";
    changes.examine(0, [&](uint64_t start, uint64_t) { return start == 96; });
    EXPECT_EQ(changes.kept(), Kept::kExamined);
    changes.examine(0, kNoneMatter);
    EXPECT_EQ(changes.kept(), Kept::kNone);
}

TEST(AnnouncedChangesTest, OneThatIsOverNeedsNoExamination) {
    AnnouncedChanges changes;
    changes.add(1, 2, 0);
    changes.examine(1 + AnnouncedChanges::kChange, [](uint64_t, uint64_t) {
        ADD_FAILURE();
        return true;
    });
    EXPECT_EQ(changes.kept(), Kept::kNone);
}

TEST(AnnouncedChangesTest, MoreThanThereArePlacesForAreKeptForASecond) {
    AnnouncedChanges changes;
    for (size_t i = 0; i < AnnouncedChanges::kPlaces; ++i) changes.add(i, i + 1, 0);
    changes.examine(0, kNoneMatter);
    EXPECT_EQ(changes.kept(), Kept::kNone) << "each had a place";
    for (size_t i = 0; i <= AnnouncedChanges::kPlaces; ++i) changes.add(i, i + 1, 0);
    changes.examine(0, kNoneMatter);
    EXPECT_EQ(changes.kept(), Kept::kExamined);
    changes.expire(AnnouncedChanges::kChange);
    EXPECT_EQ(changes.kept(), Kept::kExamined);
    changes.expire(1 + AnnouncedChanges::kChange);
    EXPECT_EQ(changes.kept(), Kept::kNone);
}

TEST(AnnouncedChangesTest, PlacesOfThoseThatAreOverAreUsedAgain) {
    constexpr int64_t kLater = 1 + AnnouncedChanges::kChange;
    AnnouncedChanges changes;
    for (size_t i = 0; i < AnnouncedChanges::kPlaces; ++i) {
        changes.add(i, i + 1, 0);
        if (i == 0) changes.examine(0, kAllMatter);
    }
    for (size_t i = 0; i < AnnouncedChanges::kPlaces; ++i) changes.add(i, i + 1, kLater);
    changes.examine(kLater, kNoneMatter);
    EXPECT_EQ(changes.kept(), Kept::kNone);
}

TEST(AnnouncedChangesTest, AllCanBeForgotten) {
    AnnouncedChanges changes;
    for (size_t i = 0; i < 2 * AnnouncedChanges::kPlaces; ++i) {
        changes.add(i, i + 1, 0);
        if (i == 3) changes.examine(0, kAllMatter);
    }
    changes.clear();
    EXPECT_EQ(changes.kept(), Kept::kNone);
    changes.add(1, 2, 0);
    EXPECT_EQ(changes.kept(), Kept::kUnexamined);
}

// The place of a change that another thread has forgotten may have the next one already.
TEST(AnnouncedChangesTest, AnExaminationDoesNotForgetANewChangeInAnOldPlace) {
    for (const bool matters : {false, true}) {
        AnnouncedChanges changes;
        changes.add(1, 2, 0);
        changes.examine(0, [&](uint64_t start, uint64_t) {
            EXPECT_EQ(start, 1u);
            changes.clear();
            changes.add(3, 4, 0);
            return matters;
        });
        EXPECT_EQ(changes.kept(), Kept::kUnexamined);
        changes.examine(0, [](uint64_t start, uint64_t) { return start == 3; });
        EXPECT_EQ(changes.kept(), Kept::kExamined);
    }
}

// Threads tell changes and see that each is kept as long as it matters, whatever others do.
TEST(AnnouncedChangesTest, NoneThatMattersIsForgottenWhateverOtherThreadsDo) {
    const uint32_t seed = tern::test::any_seed();
    constexpr unsigned kTellers = 3;
    constexpr int kRounds = 20000;
    AnnouncedChanges changes;
    std::array<std::atomic<bool>, kTellers> matters{};
    std::atomic<unsigned> running{kTellers};
    std::atomic<int64_t> time{1};
    std::atomic<int> lost{0};
    std::mutex lock;
    const auto examine = [&] {
        const std::lock_guard guard(lock);
        // What is read while the place gets another change is of no importance: it must not do
        // anything to that change.
        changes.examine(time, [&](uint64_t start, uint64_t end) {
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
                    changes.add(teller, teller + kTellers, time);
                changes.add(teller, teller + kTellers, time);
                if (random() % 4 == 0) std::this_thread::yield();
                lost += changes.kept() == Kept::kNone;
                if (random() % 2 == 0) examine();
                lost += changes.kept() == Kept::kNone;
                matters[teller] = false;
                if (random() % 8 == 0) changes.expire(time);
            }
            --running;
        });
    // Their changes are over only in the end. This thread's are over at once.
    while (running > 0) {
        changes.add(7 * kTellers, 8 * kTellers, time - 2 * AnnouncedChanges::kChange);
        changes.expire(time);
        examine();
        ++time;
        std::this_thread::yield();
    }
    for (std::thread& teller : tellers) teller.join();
    EXPECT_EQ(lost, 0);
    changes.expire(time + 2 * AnnouncedChanges::kChange);
    examine();
    EXPECT_EQ(changes.kept(), Kept::kNone) << "the counts are those of what is kept";
    // As many places as there were.
    for (size_t i = 0; i < AnnouncedChanges::kPlaces; ++i) changes.add(i, i + 1, time);
    changes.examine(time, kNoneMatter);
    EXPECT_EQ(changes.kept(), Kept::kNone);
}

// As at the end of the last change under way.
TEST(AnnouncedChangesTest, TheCountsAreRightWhenManyThreadsForgetAll) {
    AnnouncedChanges changes;
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 3; ++thread)
        threads.emplace_back([&, thread] {
            for (int i = 0; i < 20000; ++i) {
                for (unsigned count = 0; count <= 4 * thread; ++count) changes.add(1, 2, i);
                if (thread == 0) changes.examine(i, [&](uint64_t, uint64_t) { return i % 2 == 0; });
                changes.clear();
            }
        });
    for (std::thread& thread : threads) thread.join();
    changes.clear();
    EXPECT_EQ(changes.kept(), Kept::kNone);
}

}  // namespace
}  // namespace tern
