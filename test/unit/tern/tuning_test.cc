// SPDX-License-Identifier: BSD-3-Clause
// What is measured for the cost model.
#include "rendezvous/tuning.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>

#include "schedules.h"

namespace tern {
namespace {

constexpr uint64_t kMega = 1'000'000;

TEST(Estimator, BeginsWithThePort) {
    Estimator estimator(12.5e9);
    EXPECT_EQ(estimator.bandwidth(), 12.5e9);
    for (size_t i = 0; i < Estimator::kMemory / 2; ++i)
        EXPECT_FALSE(estimator.add(kMega, 1e-3)) << "too early to tell";
    EXPECT_EQ(estimator.bandwidth(), 12.5e9);
    EXPECT_TRUE(estimator.add(kMega, 1e-3));
    EXPECT_DOUBLE_EQ(estimator.bandwidth(), 1e9);
}

TEST(Estimator, KeepsStillWhileLittleChanges) {
    Estimator estimator(2.0e9);
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(estimator.add(kMega, 1e-3 / 1.95));
    EXPECT_EQ(estimator.bandwidth(), 2.0e9);
}

TEST(Estimator, TakesNoNonsense) {
    Estimator estimator(2.0e9);
    for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(estimator.add(Estimator::kLeast - 1, 1e-3));
        EXPECT_FALSE(estimator.add(kMega, 0));
        EXPECT_FALSE(estimator.add(kMega, -1));
        EXPECT_FALSE(estimator.add(kMega, std::nan("")));
        EXPECT_FALSE(estimator.add(kMega, INFINITY));
        EXPECT_FALSE(estimator.add(0, 0));
    }
    EXPECT_EQ(estimator.bandwidth(), 2.0e9);
}

// Two of five transfers are disturbed, in any way; the others vary by 2 %.
TEST(Estimator, IsNotMovedByOutliers) {
    each_schedule(200, [](Random random) -> std::string {
        const double real = 1e9 + static_cast<double>(random.below(20'000'000'000));
        Estimator estimator(40e9);
        for (int i = 0; i < 100; ++i) {
            double rate = real * (0.98 + static_cast<double>(random.below(400)) / 10'000);
            if (i % 5 == 1 || i % 5 == 3)
                rate *= random.chance(80) ? 1.0 / static_cast<double>(random.between(2, 1000)) : 50;
            estimator.add(kMega, 1e6 / rate);
            const double off = std::abs(estimator.bandwidth() / real - 1);
            if (i > 30 && off > 0.08)
                return std::to_string(estimator.bandwidth()) + " for " + std::to_string(real);
        }
        return {};
    });
}

TEST(Estimator, FollowsANetworkThatChanges) {
    Estimator estimator(10e9);
    for (int i = 0; i < 50; ++i) estimator.add(kMega, 1e-3 / 10);
    for (size_t i = 0; i < Estimator::kMemory; ++i) estimator.add(kMega, 1e-3 / 3);
    EXPECT_NEAR(estimator.bandwidth(), 3e9, 1e6);
}

TEST(Copies, AreMeasuredInTwoMilliseconds) {
    using Clock = std::chrono::steady_clock;
    Clock::duration least = Clock::duration::max();
    for (int i = 0; i < 20 && least > std::chrono::milliseconds(2); ++i) {
        const Clock::time_point start = Clock::now();
        const CopyCosts costs = measure_copies();
        least = std::min(least, Clock::now() - start);
        EXPECT_GT(costs.memory_bandwidth, 1e7);
        EXPECT_GE(costs.cache_bandwidth, costs.memory_bandwidth);
        EXPECT_LT(costs.cache_bandwidth, 1e13);
        EXPECT_GT(costs.cache, 4096);
    }
    EXPECT_LE(least, std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace tern
