// SPDX-License-Identifier: BSD-3-Clause
// Matching of posted receives, against a model that searches all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <string>
#include <vector>

#include "schedules.h"
#include "tern/matching/posted_receives.h"
#include "tern/matching/slab.h"

namespace tern {
namespace {

constexpr uint64_t kFull = PostedReceive::kFullMask;

TEST(MatchingTest, InOrderOfPosting) {
    PostedReceives table(8);
    PostedReceive a, b, c;
    table.post(a, 7, kFull);
    table.post(b, 8, kFull);
    table.post(c, 7, kFull);
    EXPECT_EQ(table.size(), 3u);
    EXPECT_EQ(table.match(7), &a);
    EXPECT_EQ(table.match(7), &c);
    EXPECT_EQ(table.match(7), nullptr);
    EXPECT_EQ(table.match(8), &b);
    EXPECT_EQ(table.size(), 0u);
}

TEST(MatchingTest, AWildcardTakesItsTurn) {
    PostedReceives table(8);
    PostedReceive before, any, after, other;
    table.post(before, 0x17, kFull);
    table.post(other, 0x20, 0xf0);
    table.post(any, 0x10, 0xf0);
    table.post(after, 0x17, kFull);
    EXPECT_EQ(table.wildcard(0x17), &any);
    EXPECT_EQ(table.wildcard(0x37), nullptr);
    EXPECT_EQ(table.match(0x17), &before);
    EXPECT_EQ(table.match(0x17), &any);
    EXPECT_EQ(table.match(0x17), &after);
    EXPECT_EQ(table.match(0x2f), &other);
}

TEST(MatchingTest, AnythingMatchesTheEmptyMask) {
    PostedReceives table(8);
    PostedReceive any;
    table.post(any, 0x1234, 0);
    EXPECT_EQ(table.match(~uint64_t{0}), &any);
}

// Like the receives of MPICH, which leave two bits open.
TEST(MatchingTest, ReceivesThatLeaveTheSameBitsOpenAreFoundByTheirKey) {
    constexpr uint64_t kTwoOpen = ~uint64_t{3};
    constexpr unsigned kCount = 64;
    PostedReceives table(kCount);
    PostedReceive receives[kCount];
    for (unsigned i = 0; i < kCount; ++i) table.post(receives[i], i % 16 * 8 + i % 3, kTwoOpen);
    ASSERT_TRUE(table.wants_other_key());
    EXPECT_FALSE(table.is_keyed(receives[0]));
    EXPECT_NE(table.wildcard(0), nullptr);
    table.change_key();
    EXPECT_EQ(table.key_mask(), kTwoOpen);
    EXPECT_TRUE(table.is_keyed(receives[0]));
    EXPECT_EQ(table.wildcard(0), nullptr);
    for (unsigned key = 0; key < 16; ++key)
        for (unsigned i = key; i < kCount; i += 16)
            EXPECT_EQ(table.match(key * 8 + i % 4), &receives[i]) << i;
}

TEST(MatchingTest, WhatWasPostedWithTheOldKeyIsAWildcardInItsPlace) {
    constexpr uint64_t kOneOpen = ~uint64_t{1};
    PostedReceives table(8);
    PostedReceive exact, open, any, other;
    PostedReceive more[64];
    table.post(exact, 7, kFull);
    table.post(open, 6, kOneOpen);
    table.post(other, 6, kFull);
    table.post(any, 0, 0);
    for (PostedReceive& each : more) table.post(each, 100, kOneOpen);
    ASSERT_TRUE(table.wants_other_key());
    table.change_key();
    EXPECT_EQ(table.size(), 68u);
    EXPECT_EQ(table.first(7), &open);
    EXPECT_EQ(PostedReceives::next(open), nullptr);
    EXPECT_EQ(table.wildcard(6), &exact) << "it could match messages with this key";
    EXPECT_EQ(table.match(7), &exact);
    EXPECT_EQ(table.match(7), &open);
    EXPECT_EQ(table.match(7), &any);
    EXPECT_EQ(table.match(6), &other);
    EXPECT_EQ(table.match(6), nullptr);
}

TEST(MatchingTest, RemovedIsForgotten) {
    PostedReceives table(8);
    PostedReceive a, b, c;
    for (PostedReceive* gone : {&a, &b, &c}) {
        for (PostedReceive* each : {&a, &b, &c}) table.post(*each, 1, kFull);
        table.remove(*gone);
        EXPECT_FALSE(gone->posted);
        for (PostedReceive* each : {&a, &b, &c}) {
            if (each != gone) {
                EXPECT_EQ(table.match(1), each);
            }
        }
        EXPECT_EQ(table.match(1), nullptr);
    }
}

struct Totals {
    uint64_t changes = 0;  // of the key mask
} totals;

// Random tags, masks, messages and cancels: with few tags, so that receives share rings, and with
// many, so that tags share buckets. The bits that most receives leave open change now and then.
// Returns the first difference from the model.
std::string run(Random random, uint64_t tags, unsigned steps) {
    constexpr uint64_t kMasks[] = {kFull, 0, 0xffff, ~uint64_t{0xff}, 0xff00ff00ff00ff00};
    constexpr uint64_t kOftenMasks[] = {kFull, ~uint64_t{1}, ~uint64_t{0x300000}};
    constexpr size_t kMost = 200;
    struct Model {
        uint64_t tag, mask;
        PostedReceive* receive;
        bool takes(uint64_t message) const { return (tag & mask) == (message & mask); }
    };
    PostedReceives table(16);
    std::vector<PostedReceive> receives(kMost);
    std::vector<PostedReceive*> free;
    for (PostedReceive& receive : receives) free.push_back(&receive);
    std::list<Model> model;
    const auto taken_out = [&](std::list<Model>::iterator at) {
        free.push_back(at->receive);
        model.erase(at);
    };
    // Like the tags of MPI libraries: a few bits in several places.
    const auto tag = [&] {
        const uint64_t n = random.below(tags);
        return (n & 3) << 40 | (n >> 2 & 7) << 20 | n >> 5;
    };
    uint64_t often = kFull;
    const auto wild = random.chance(30) ? 0u : static_cast<unsigned>(random.below(60));
    for (unsigned i = 0; i < steps; ++i) {
        if (random.below(300) == 0) often = kOftenMasks[random.below(3)];
        if (table.wants_other_key() && random.chance(20)) {
            table.change_key();
            ++totals.changes;
        }
        const uint64_t what = random.below(10);
        if (what < 5 && !free.empty()) {
            const Model each{tag(), random.chance(wild) ? kMasks[random.below(5)] : often,
                             free.back()};
            free.pop_back();
            table.post(*each.receive, each.tag, each.mask);
            model.push_back(each);
        } else if (what < 9) {
            const uint64_t message = tag();
            const auto found =
                std::ranges::find_if(model, [&](const Model& each) { return each.takes(message); });
            const auto wildcard = std::ranges::find_if(model, [&](const Model& each) {
                return each.mask != table.key_mask() &&
                       ((each.tag ^ message) & each.mask & table.key_mask()) == 0;
            });
            const auto first = std::ranges::find_if(model, [&](const Model& each) {
                return each.mask == table.key_mask() && each.takes(message);
            });
            if (table.first(message) != (first == model.end() ? nullptr : first->receive))
                return "another first at step " + std::to_string(i);
            if (table.wildcard(message) != (wildcard == model.end() ? nullptr : wildcard->receive))
                return "another wildcard at step " + std::to_string(i);
            if (table.match(message) != (found == model.end() ? nullptr : found->receive))
                return "another match at step " + std::to_string(i);
            if (found != model.end()) taken_out(found);
        } else if (!model.empty()) {
            const auto gone =
                std::next(model.begin(), static_cast<std::ptrdiff_t>(random.below(model.size())));
            table.remove(*gone->receive);
            taken_out(gone);
        }
        if (table.size() != model.size()) return "another size at step " + std::to_string(i);
    }
    return {};
}

TEST(MatchingSchedules, OneTag) {
    each_schedule(100, [](Random random) { return run(random, 1, 2000); });
}

TEST(MatchingSchedules, FewTags) {
    each_schedule(200, [](Random random) { return run(random, 6, 2000); });
}

TEST(MatchingSchedules, ManyTags) {
    each_schedule(200, [](Random random) { return run(random, 100, 2000); });
}

TEST(MatchingSchedules, MoreTagsThanReceives) {
    each_schedule(50, [](Random random) { return run(random, 5000, 5000); });
}

TEST(MatchingSchedules, TheKeyMaskHasChanged) {
    each_schedule(50, [](Random random) { return run(random, 60, 4000); });
    EXPECT_GT(totals.changes, 50u);
}

TEST(SlabTest, TakesAndGivesAFixedNumber) {
    struct Object {
        Object* next_free = nullptr;
    };
    Slab<Object> slab(3);
    Object* const taken[] = {slab.take(), slab.take(), slab.take()};
    EXPECT_NE(taken[0], taken[1]);
    EXPECT_NE(taken[1], taken[2]);
    EXPECT_EQ(slab.take(), nullptr);
    slab.give(taken[1]);
    EXPECT_EQ(slab.take(), taken[1]);
    EXPECT_EQ(slab.take(), nullptr);
    unsigned count = 0;
    slab.for_each([&](Object&) { ++count; });
    EXPECT_EQ(count, slab.count());
}

}  // namespace
}  // namespace tern
