// SPDX-License-Identifier: BSD-3-Clause
// How a staged message is cut into chunks.
#include "tern/rendezvous/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "schedules.h"

namespace tern {
namespace schedule_test {

constexpr uint32_t kAmple = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kBlock = SubBlocks::kSubBlock;

std::vector<uint32_t> chunks(uint64_t length, const ScheduleLimits& limits) {
    std::vector<uint32_t> sizes;
    for (Schedule schedule(length, limits); !schedule.done();)
        sizes.push_back(schedule.next(kAmple));
    return sizes;
}

// Lengths of every magnitude up to 2^48, often next to a whole number of sub-blocks.
uint64_t random_length(Random& random, unsigned bits) {
    const uint64_t length = random() >> (64 - random.between(1, bits));
    if (random.chance(50)) return length + 1;
    return length / kBlock * kBlock + random.below(3);
}

ScheduleLimits random_limits(Random& random) {
    const double qs[] = {1.0, 1.05, 1.5, 2.0, 9.5};
    return {.first_bytes = static_cast<uint32_t>(random.below(100'000)),
            .q = qs[random.below(5)],
            .most = static_cast<uint32_t>(random.between(1, 200)),
            .least = static_cast<uint32_t>(random.below(6))};
}

TEST(SubBlocks, TheFirstIsTheShortOne) {
    EXPECT_EQ(SubBlocks::count(0), 0u);
    EXPECT_EQ(SubBlocks::first(0), 0u);
    EXPECT_EQ(SubBlocks::count(1), 1u);
    EXPECT_EQ(SubBlocks::first(1), 1u);
    EXPECT_EQ(SubBlocks::in_slot(1, 0), 4095u);
    EXPECT_EQ(SubBlocks::count(4096), 1u);
    EXPECT_EQ(SubBlocks::first(4096), 4096u);
    EXPECT_EQ(SubBlocks::count(4097), 2u);
    EXPECT_EQ(SubBlocks::first(4097), 1u);
    EXPECT_EQ(SubBlocks::offset(4097, 1), 1u);
    EXPECT_EQ(SubBlocks::in_slot(4097, 1), 0u);
    EXPECT_EQ(SubBlocks::count((uint64_t{1} << 48) + 1), (uint64_t{1} << 36) + 1);
}

TEST(SubBlocks, LieOneBehindTheOtherAndEndAtTheirFlags) {
    each_schedule(2000, [](Random random) -> std::string {
        const uint64_t length = random_length(random, 48);
        const uint64_t count = SubBlocks::count(length);
        if (SubBlocks::offset(length, count) != length && count > 0) return "does not end there";
        for (int i = 0; i < 20 && count > 0; ++i) {
            const uint64_t index = i == 0 ? 0 : random.below(count);
            const uint32_t bytes = SubBlocks::bytes(length, index);
            if (bytes == 0 || bytes > kBlock) return "a sub-block of " + std::to_string(bytes);
            if (SubBlocks::offset(length, index) + bytes != SubBlocks::offset(length, index + 1))
                return "a hole behind sub-block " + std::to_string(index);
            if (SubBlocks::in_slot(length, index) + bytes != SubBlocks::kSubBlock)
                return "does not end at its flag";
        }
        return {};
    });
}

TEST(Schedule, OfNothingIsDone) {
    EXPECT_TRUE(Schedule().done());
    EXPECT_EQ(Schedule().wanted(), 0u);
    Schedule empty(0, {});
    EXPECT_TRUE(empty.done());
    EXPECT_EQ(empty.next(kAmple), 0u);
}

TEST(Schedule, ChunksGrowByQ) {
    const ScheduleLimits limits = {.most = 64};
    EXPECT_EQ(chunks(150 * kBlock, limits),
              (std::vector<uint32_t>{3, 4, 6, 10, 15, 22, 34, 51, 5}));
    EXPECT_EQ(chunks(1, limits), std::vector<uint32_t>{1});
    EXPECT_EQ(chunks(12 * 1024, limits), std::vector<uint32_t>{3});
    EXPECT_EQ(chunks(5 * kBlock, limits), (std::vector<uint32_t>{3, 2}));
}

TEST(Schedule, ATailThatIsNotWorthAGapIsNotSentAlone) {
    EXPECT_EQ(chunks(4 * kBlock, {.least = 2}), std::vector<uint32_t>{4});
    EXPECT_EQ(chunks(3 * kBlock + 1, {.least = 2}), std::vector<uint32_t>{4});
    EXPECT_EQ(chunks(5 * kBlock, {.least = 3}), std::vector<uint32_t>{5});
    EXPECT_EQ(chunks(4 * kBlock, {.least = 0}), (std::vector<uint32_t>{3, 1}));
    EXPECT_EQ(chunks(4 * kBlock, {.most = 3, .least = 2}), (std::vector<uint32_t>{3, 1}))
        << "the limit does not allow it";
}

TEST(Schedule, TheRingLimitsAChunk) {
    EXPECT_EQ(ScheduleLimits::most_of(64), 21u);
    EXPECT_EQ(ScheduleLimits::most_of(64, 2), 32u);
    EXPECT_EQ(ScheduleLimits::most_of(2), 1u);
    EXPECT_EQ(ScheduleLimits::most_of(64, 0), 64u);
    EXPECT_EQ(chunks(40 * kBlock, {.most = 8}), (std::vector<uint32_t>{3, 4, 6, 8, 8, 8, 3}));
    EXPECT_EQ(chunks(4 * kBlock, {.most = 1}), std::vector<uint32_t>(4, 1));
}

TEST(Schedule, GoesOnInTheRoomThereIs) {
    Schedule schedule(100 * kBlock, {});
    EXPECT_EQ(schedule.next(0), 0u);
    EXPECT_EQ(schedule.wanted(), 3u) << "no room is no step";
    EXPECT_EQ(schedule.next(2), 2u);
    EXPECT_EQ(schedule.wanted(), 4u);
    EXPECT_EQ(schedule.next(1), 1u);
    EXPECT_EQ(schedule.next(kAmple), 6u);
    EXPECT_EQ(schedule.left(), 91u);
}

TEST(Schedule, TakesAnyLimits) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const double q : {0.0, -1.0, 0.5, std::nan(""), -inf})
        EXPECT_EQ(chunks(12 * kBlock, {.q = q}), (std::vector<uint32_t>{3, 3, 3, 3})) << q;
    EXPECT_EQ(chunks(100 * kBlock, {.q = inf, .most = 50}), (std::vector<uint32_t>{3, 50, 47}));
    EXPECT_EQ(chunks(2 * kBlock, {.first_bytes = 0, .most = 0}), (std::vector<uint32_t>{1, 1}));
    EXPECT_EQ(chunks(200 * kBlock, {.first_bytes = kAmple, .most = 70}),
              (std::vector<uint32_t>{70, 70, 60}));
}

// Chunks of C_0 * q^i, O(log L) of them, up to the longest messages.
TEST(Schedule, AddsTheSameNumberOfChunksForEachDoubling) {
    const ScheduleLimits limits = {.most = kAmple};
    size_t before = chunks(uint64_t{1} << 20, limits).size();
    for (unsigned bits = 24; bits <= 40; bits += 4) {
        const size_t now = chunks(uint64_t{1} << bits, limits).size();
        EXPECT_NEAR(static_cast<double>(now - before), 4 * std::log(2) / std::log(1.5), 1);
        before = now;
    }
    EXPECT_LT(chunks((uint64_t{1} << 48) - 1, limits).size(), 80u);
}

TEST(Schedule, WithRoomEveryChunkHasItsSize) {
    each_schedule(5000, [](Random random) -> std::string {
        const ScheduleLimits limits = random_limits(random);
        const uint64_t length = random_length(random, 24);
        const std::vector<uint32_t> sizes = chunks(length, limits);
        const double first = std::max<uint32_t>(1, limits.first_bytes / kBlock);
        uint64_t sum = 0;
        for (size_t i = 0; i < sizes.size(); ++i) {
            sum += sizes[i];
            if (sizes[i] == 0 || sizes[i] > limits.most) return "chunk " + std::to_string(i);
            if (i + 1 == sizes.size()) break;
            const double size = std::min<double>(limits.most, first * std::pow(limits.q, i));
            if (std::abs(sizes[i] - std::floor(size)) > (size > 1e6 ? 1 : 0) &&
                std::abs(size - std::round(size)) > 1e-6)
                return "chunk " + std::to_string(i) + " has " + std::to_string(sizes[i]) +
                       " and not " + std::to_string(size);
            if (i > 0 && sizes[i] < sizes[i - 1]) return "chunks shrink";
        }
        if (sum != SubBlocks::count(length)) return "all chunks are " + std::to_string(sum);
        if (sizes.size() > 1 && sizes.back() < limits.least &&
            sizes[sizes.size() - 2] + sizes.back() <= limits.most)
            return "a tail of " + std::to_string(sizes.back());
        return {};
    });
}

TEST(Schedule, SendsEverythingOnceHoweverTheRoomComes) {
    each_schedule(5000, [](Random random) -> std::string {
        ScheduleLimits limits = random_limits(random);
        const unsigned bits = random.chance(20) ? 48 : 24;
        if (bits == 48) {
            limits.q = 2;
            limits.most = 1u << random.between(27, 31);
        }
        const uint64_t length = random_length(random, bits);
        Schedule schedule(length, limits);
        uint64_t left = SubBlocks::count(length);
        while (left > 0) {
            const uint32_t room = random.chance(20) ? 0
                                  : random.chance(50)
                                      ? kAmple
                                      : static_cast<uint32_t>(random.between(1, limits.most + 1));
            const uint32_t wanted = schedule.wanted();
            const uint32_t chunk = schedule.next(room);
            if (wanted == 0 || wanted > limits.most || wanted > left) return "wants what is not";
            if (chunk != std::min(wanted, room)) return "takes another chunk than it wanted";
            left -= chunk;
            if (schedule.left() != left || schedule.done() != (left == 0)) return "miscounts";
        }
        return schedule.next(kAmple) == 0 ? "" : "more than there was";
    });
}

}  // namespace schedule_test
}  // namespace tern
