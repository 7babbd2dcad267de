// SPDX-License-Identifier: BSD-3-Clause
// What tern-bench measures with, as far as it can be wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bench/measure/mark.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

Options options_of(uint32_t low, uint32_t high, double step) {
    Options options;
    options.low = low;
    options.high = high;
    options.step = step;
    return options;
}

TEST(BenchSizes, AreWordsOrLessThanOne) {
    EXPECT_EQ(long_sizes(options_of(1, 64, 2)), (std::vector<uint32_t>{1, 2, 4, 8, 16, 32, 64}));
    EXPECT_EQ(long_sizes(options_of(1, 32, 4)), (std::vector<uint32_t>{1, 4, 16}));
    EXPECT_EQ(long_sizes(options_of(5, 5, 2)), (std::vector<uint32_t>{5}));
    EXPECT_EQ(long_sizes(options_of(1, 8, 1.2)).front(), 1u);
    const std::vector<uint32_t> sizes = long_sizes(options_of(1, 64, 1.1));
    EXPECT_EQ(std::set<uint32_t>(sizes.begin(), sizes.end()).size(), sizes.size());
}

TEST(BenchMarks, EveryByteOfAShortMessageCounts) {
    for (const uint32_t size : {1, 2, 4, 5, 7, 8, 16, 24}) {
        std::vector<char> message(size + 2, 'x');
        mark(message.data() + 1, size, 0x1122334455667788);
        EXPECT_EQ(message.front(), 'x') << size;
        EXPECT_EQ(message.back(), 'x') << size;
        EXPECT_TRUE(is_marked(message.data() + 1, size, 0x1122334455667788)) << size;
        EXPECT_FALSE(is_marked(message.data() + 1, size, 0x1122334455667787)) << size;
        for (const uint32_t wrong : {0u, size - 1}) {
            message[1 + wrong] ^= 1;
            EXPECT_FALSE(is_marked(message.data() + 1, size, 0x1122334455667788)) << size;
            message[1 + wrong] ^= 1;
        }
    }
}

TEST(BenchMarks, TheTailIsTheLastWordOrByte) {
    for (const uint32_t size : {1u, 2u, 4u, 7u, 8u, 16u}) {
        alignas(8) char message[24] = {};
        Tail tail(message, size);
        tail.store(0x1ff);
        EXPECT_TRUE(tail.has(0x1ff)) << size;
        EXPECT_FALSE(tail.has(0x1fe)) << size;
        EXPECT_FALSE(tail.has(0x200)) << size;
        for (uint32_t i = 0; i < sizeof message; ++i) {
            const uint32_t first = size < 8 ? size - 1 : size - 8;
            const bool part = i >= first && i < size;
            EXPECT_EQ(message[i], !part ? 0 : i == first ? '\xff' : i == first + 1 ? 1 : 0) << size;
        }
    }
}

TEST(BenchSizes, StepsMeetThePowersOfTwo) {
    for (const double step : {1.05, 1.2, 1.5, 2.0, 4.0}) {
        const std::vector<uint32_t> sizes = long_sizes(options_of(1 << 10, 16 << 20, step));
        EXPECT_EQ(sizes.front(), 1u << 10) << step;
        EXPECT_EQ(sizes.back(), 16u << 20) << step;
        EXPECT_NE(std::ranges::find(sizes, 64u << 10), sizes.end()) << step;
        for (size_t i = 1; i < sizes.size(); ++i) {
            const double ratio = static_cast<double>(sizes[i]) / sizes[i - 1];
            EXPECT_GT(ratio, std::min(1.02, step)) << sizes[i];
            EXPECT_LT(ratio, std::max(2.05, step + 0.05)) << sizes[i];
            EXPECT_EQ(sizes[i] % 8, 0u);
        }
    }
    EXPECT_EQ(long_sizes(options_of(1 << 10, 16 << 20, 1.2)).size(), 14u * 4 + 1);
}

TEST(BenchSizes, OneSizeIsLeftOfANarrowRange) {
    EXPECT_EQ(long_sizes(options_of(64 << 10, 64 << 10, 1.2)), std::vector<uint32_t>{64 << 10});
    EXPECT_EQ(long_sizes(options_of(70000, 70001, 2)), std::vector<uint32_t>{70000});
}

}  // namespace
}  // namespace bench
