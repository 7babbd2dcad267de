// SPDX-License-Identifier: BSD-3-Clause
// Statistics of measured values, as far as they can be wrong.
#include <gtest/gtest.h>

#include <cmath>

#include "bench/report/figure.h"
#include "bench/report/statistics.h"

namespace report {
namespace {

TEST(ReportFit, FindsTheLine) {
    std::vector<Timing> timings;
    for (double bytes = 4096; bytes < 1e8; bytes *= 4)
        timings.push_back({bytes, 68e-6 + bytes / 20e9});
    const Line line = fit_line(timings);
    EXPECT_NEAR(line.constant, 68e-6, 1e-9);
    EXPECT_NEAR(line.bandwidth, 20e9, 1e6);
}

TEST(ReportFit, ErrorsCountByTheirShare) {
    // 2 % more at one end, which is far more than the constant.
    const Line line = fit_line({{4096, 1e-6 + 4096 / 2e9},
                                {65536, 1e-6 + 65536 / 2e9},
                                {1 << 24, 1.02 * (1 << 24) / 2e9}});
    EXPECT_NEAR(line.constant, 1e-6, 3e-7);
    EXPECT_NEAR(line.bandwidth, 2e9, 5e7);
}

TEST(ReportFit, NothingIsNegative) {
    const Line steep = fit_line({{1000, 1e-7}, {2000, 1e-6}, {3000, 2e-6}});
    EXPECT_EQ(steep.constant, 0);
    EXPECT_GT(steep.bandwidth, 0);
    const Line falling = fit_line({{1000, 2e-6}, {2000, 1e-6}});
    EXPECT_GT(falling.constant, 0);
    EXPECT_TRUE(std::isinf(falling.bandwidth));
    EXPECT_DOUBLE_EQ(fit_line({{8, 3e-6}}).constant, 3e-6);
}

// Ratios are those of the rounds: what disturbs a whole round does not show in them.
TEST(ReportRounds, RatiosAreTakenWithinARound) {
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

TEST(ReportRounds, FewAndDifferentRoundsAreDoubtful) {
    const Samples ones(5, 1);
    EXPECT_EQ(ratio_figure({}, {1, 1, 1, 1}, {1, 1, 1, 1}).doubts, Doubts{"few rounds"});
    EXPECT_EQ(ratio_figure({}, {1, 1.2, 1.2, 1.2, 1.3}, ones).doubts, Doubts{"rounds differ"});
    EXPECT_EQ(ratio_figure({}, {1.1, 1.2, 1.2, 1.2, 1.3}, ones).doubts, Doubts{});
}

TEST(ReportRounds, AValueNeedsACpuOfItsOwn) {
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

TEST(ReportLate, ALateValueIsRefused) {
    Figure figure;
    figure.value = summarize({12.5});
    EXPECT_FALSE(figure.refused()) << "nothing is known of another device";
    figure.late_share = kLateShare;
    EXPECT_FALSE(figure.refused());
    figure.late_share = 0.3;
    EXPECT_TRUE(figure.refused());
}

}  // namespace
}  // namespace report
