// SPDX-License-Identifier: BSD-3-Clause
// What tern-bench measures with, as far as it can be wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/measure/mark.h"
#include "bench/measure/order.h"
#include "bench/measure/times.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

TEST(BenchFit, FindsTheLine) {
    std::vector<Timing> timings;
    for (double bytes = 4096; bytes < 1e8; bytes *= 4)
        timings.push_back({bytes, 68e-6 + bytes / 20e9});
    const Line line = fit_line(timings);
    EXPECT_NEAR(line.constant, 68e-6, 1e-9);
    EXPECT_NEAR(line.bandwidth, 20e9, 1e6);
}

TEST(BenchFit, ErrorsCountByTheirShare) {
    // 2 % more at one end, which is far more than the constant.
    const Line line = fit_line({{4096, 1e-6 + 4096 / 2e9},
                                {65536, 1e-6 + 65536 / 2e9},
                                {1 << 24, 1.02 * (1 << 24) / 2e9}});
    EXPECT_NEAR(line.constant, 1e-6, 3e-7);
    EXPECT_NEAR(line.bandwidth, 2e9, 5e7);
}

TEST(BenchFit, NothingIsNegative) {
    const Line steep = fit_line({{1000, 1e-7}, {2000, 1e-6}, {3000, 2e-6}});
    EXPECT_EQ(steep.constant, 0);
    EXPECT_GT(steep.bandwidth, 0);
    const Line falling = fit_line({{1000, 2e-6}, {2000, 1e-6}});
    EXPECT_GT(falling.constant, 0);
    EXPECT_TRUE(std::isinf(falling.bandwidth));
    EXPECT_DOUBLE_EQ(fit_line({{8, 3e-6}}).constant, 3e-6);
}

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

TEST(BenchMarks, EveryWordOfAPaintedMessageIsChecked) {
    for (const uint32_t size : {8u, 16u, 24u, 4096u}) {
        std::vector<char> message(size);
        paint(message.data(), size);
        EXPECT_EQ(find_damage(message.data(), size, false), size);
        for (uint32_t at = 0; at < size; at += kWord) {
            message[at + 3] ^= 1;
            EXPECT_EQ(find_damage(message.data(), size, false), at);
            const bool is_end = at == 0 || at + kWord == size;
            EXPECT_EQ(find_damage(message.data(), size, true), is_end ? size : at);
            message[at + 3] ^= 1;
        }
        mark(message.data(), size, 7);
        EXPECT_EQ(find_damage(message.data(), size, true), size);
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

Order order_of(uint32_t size, uint64_t count, Buffers buffers) {
    Order order;
    order.size = size;
    order.count = count;
    order.buffers = buffers;
    return order;
}

// Until the walk begins again no page is used twice, nor one beside a used one.
TEST(BenchWalk, FreshBuffersDoNotMeet) {
    Walk walk;
    std::set<uint64_t> pages;
    for (int i = 0; i < 300; ++i) {
        const uint32_t sizes[] = {1024, 4096, 4160, 65536, 1 << 20, 16 << 20};
        const uint32_t size = sizes[i % 6];
        const uint64_t count = std::min<uint64_t>(5, Walk::most(size));
        const Buffers buffers = i % 7 == 0 ? Buffers::kReused : Buffers::kFresh;
        if (walk.begin(order_of(size, count, buffers))) pages.clear();
        uint64_t last = ~uint64_t{0};
        for (uint64_t j = 0; j < count; ++j) {
            const uint64_t at = walk.step();
            ASSERT_LE(at + size, kGround);
            if (buffers == Buffers::kReused && j > 0) {
                ASSERT_EQ(at, last);
                continue;
            }
            last = at;
            for (uint64_t page = at / 4096; page <= (at + size - 1) / 4096; ++page) {
                ASSERT_TRUE(pages.insert(page).second) << "page " << page << " of buffer " << i;
            }
            ASSERT_FALSE(pages.contains((at + size - 1) / 4096 + 1));
            ASSERT_TRUE(at == 0 || !pages.contains(at / 4096 - 1));
        }
    }
}

// Ratios are those of the rounds: what disturbs a whole round does not show in them.
TEST(BenchRounds, RatiosAreTakenWithinARound) {
    Figure outline;
    outline.test = "a test";
    outline.name = "one / other";
    const Figure ratio =
        ratio_figure(outline, {11, 22, 110, 33, 11, 22, 44}, {10, 20, 100, 30, 10, 20, 40});
    EXPECT_TRUE(ratio.is_ratio());
    EXPECT_EQ(ratio.test, "a test");
    EXPECT_EQ(ratio.name, "one / other");
    EXPECT_DOUBLE_EQ(ratio.value.median, 1.1);
    EXPECT_DOUBLE_EQ(ratio.value.p10, 1.1);
    EXPECT_DOUBLE_EQ(ratio.value.p90, 1.1);
    EXPECT_EQ(ratio.value.count, 7u);
    EXPECT_TRUE(ratio.doubts.empty());
}

using Doubts = std::vector<std::string>;

TEST(BenchRounds, ATargetWithinTheSpreadIsDoubtful) {
    Figure outline;
    outline.target = 1.05;
    const Samples ones(5, 1);
    const Samples around = {1.02, 1.03, 1.04, 1.07, 1.08};
    const Figure ratio = ratio_figure(outline, around, ones);
    EXPECT_TRUE(ratio.met());
    EXPECT_EQ(ratio.doubts, Doubts{"target within the spread"});
    EXPECT_EQ(ratio_figure(outline, {1.06, 1.07, 1.08, 1.1, 1.1}, ones).doubts, Doubts{});
    outline.target = kNone;
    EXPECT_EQ(ratio_figure(outline, around, ones).doubts, Doubts{});
}

TEST(BenchRounds, FewAndDifferentRoundsAreDoubtful) {
    const Samples ones(5, 1);
    EXPECT_EQ(ratio_figure({}, {1, 1, 1, 1}, {1, 1, 1, 1}).doubts, Doubts{"few rounds"});
    EXPECT_EQ(ratio_figure({}, {1, 1.2, 1.2, 1.2, 1.3}, ones).doubts, Doubts{"rounds differ"});
    EXPECT_EQ(ratio_figure({}, {1.1, 1.2, 1.2, 1.2, 1.3}, ones).doubts, Doubts{});
}

TEST(BenchRounds, AValueNeedsACpuOfItsOwn) {
    const Samples medians = {1.0, 1.1, 1.2, 1.3, 1.4};
    const auto doubts = [&](bool own_cpus, double share) {
        Figure figure;
        doubt_value(&figure, medians, own_cpus, share);
        return figure.doubts;
    };
    EXPECT_EQ(doubts(true, 0.96), Doubts{});
    EXPECT_EQ(doubts(true, kNone), Doubts{});
    EXPECT_EQ(doubts(true, 0.5), Doubts{"had a CPU for 50%"});
    EXPECT_EQ(doubts(false, 1), Doubts{"one CPU for both processes"});
}

}  // namespace
}  // namespace bench
