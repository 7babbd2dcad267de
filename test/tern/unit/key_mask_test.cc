// SPDX-License-Identifier: BSD-3-Clause
// How the key mask is learnt.
#include "tern/matching/key_mask.h"

#include <gtest/gtest.h>

#include "schedules.h"

namespace tern {
namespace key_mask_test {

constexpr uint64_t kTwoOpen = ~uint64_t{3};
constexpr uint64_t kAnySource = ~uint64_t{0xfffff0};

// Casts votes, applying each change at once. Returns the number of changes.
template <class Mask>
unsigned changes(KeyMask& key, unsigned votes, Mask&& mask) {
    unsigned count = 0;
    for (unsigned i = 0; i < votes; ++i) {
        key.vote(mask(i));
        if (!key.changes()) continue;
        key.change();
        ++count;
    }
    return count;
}

TEST(KeyMask, IsFullAtFirst) {
    KeyMask key;
    EXPECT_EQ(key.value(), KeyMask::kFull);
    EXPECT_EQ(changes(key, 10'000, [](unsigned) { return KeyMask::kFull; }), 0u);
}

TEST(KeyMask, IsLearntFromReceivesThatAllLeaveTheSameBitsOpen) {
    KeyMask key;
    EXPECT_EQ(changes(key, 100, [](unsigned) { return kTwoOpen; }), 1u);
    EXPECT_EQ(key.value(), kTwoOpen);
    EXPECT_EQ(changes(key, 10'000, [](unsigned i) { return i % 4 ? kTwoOpen : kAnySource; }), 0u);
    EXPECT_EQ(changes(key, 10'000, [](unsigned i) { return i % 2 ? kTwoOpen : KeyMask::kFull; }),
              0u);
}

TEST(KeyMask, IsLearntAmongWildcards) {
    KeyMask key;
    EXPECT_EQ(changes(key, 400, [](unsigned i) { return i % 4 == 0 ? kTwoOpen : kAnySource; }), 1u);
    EXPECT_EQ(key.value(), kTwoOpen);
}

TEST(KeyMask, NeverLeavesAFieldOpen) {
    KeyMask key;
    EXPECT_EQ(changes(key, 10'000, [](unsigned) { return kAnySource; }), 0u);
    EXPECT_EQ(changes(key, 10'000, [](unsigned) { return 0; }), 0u);
    EXPECT_TRUE(KeyMask::eligible(~uint64_t{0xf}));
    EXPECT_FALSE(KeyMask::eligible(~uint64_t{0x1f}));
}

TEST(KeyMask, IsNotThatOfTheMinority) {
    Random random(number_from_environment("TERN_TEST_SEED", 1));
    KeyMask key;
    EXPECT_EQ(changes(key, 100'000,
                      [&](unsigned) { return random.chance(50) ? kTwoOpen : KeyMask::kFull; }),
              0u);
    EXPECT_EQ(changes(key, 100'000,
                      [&](unsigned) { return random.chance(90) ? kTwoOpen : KeyMask::kFull; }),
              1u);
    EXPECT_EQ(key.value(), kTwoOpen);
    EXPECT_EQ(changes(key, 100'000, [](unsigned i) { return ~(uint64_t{1} << i % 64); }), 0u)
        << "everybody has a mask of his own";
}

TEST(KeyMask, ComesToRest) {
    KeyMask key;
    EXPECT_LE(changes(key, 1'000'000,
                      [](unsigned i) { return i / 1000 % 2 ? kTwoOpen : KeyMask::kFull; }),
              6u);
}

TEST(KeyMask, DoesNotChangeBeforeItMay) {
    KeyMask key;
    while (!key.changes()) key.vote(kTwoOpen);
    EXPECT_EQ(key.value(), KeyMask::kFull);
    for (int i = 0; i < 100; ++i) key.vote(KeyMask::kFull);
    EXPECT_TRUE(key.changes()) << "what has been begun for it is not in vain";
    key.change();
    EXPECT_EQ(key.value(), kTwoOpen);
    key.change();
    EXPECT_EQ(key.value(), kTwoOpen);
}

}  // namespace key_mask_test
}  // namespace tern
