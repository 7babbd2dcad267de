// SPDX-License-Identifier: BSD-3-Clause
// The cost model as straight lines, range by range.
#include "tern/rendezvous/decision.h"

#include <gtest/gtest.h>

#include <string>

namespace tern {
namespace fetch_times_test {

constexpr uint64_t kNoLimit = UINT64_MAX;
constexpr double kCopies = 6e9;  // bytes per second
constexpr double kAsking = 2e-6;

Decider decider_of(const char* name, SchemeSetting scheme = SchemeSetting::kAuto) {
    return Decider(*find_costs(name), {.scheme = scheme});
}

const FetchRange& range_of(const FetchTimes& times, uint64_t length) {
    size_t i = 0;
    while (times.ranges[i].upto < length) ++i;
    return times.ranges[i];
}

double time_of(const FetchRange& range, uint64_t length) {
    return range.latency + range.fixed + range.per_byte * static_cast<double>(length);
}

// The time by the model, with the messages that ask and acknowledge.
double model_time(const Decider& decider, uint64_t length) {
    Costs costs = decider.model().costs();
    costs.copy = {.cache_bandwidth = kCopies, .memory_bandwidth = kCopies};
    const Decider told(costs, decider.settings());
    const CostModel& model = told.model();
    const double asking = 2 * costs.network.latency + kAsking;
    if (decider.decide({.length = length}).staged())
        return asking + model.superpipeline(length, told.staging(length));
    return asking + model.placing() + model.pinned_behind_wire(length, model.best_piece(length));
}

class FetchTimesOf : public testing::TestWithParam<const char*> {};

TEST_P(FetchTimesOf, AreThoseOfTheModel) {
    const Decider decider = decider_of(GetParam());
    const FetchTimes times = fetch_times(decider, kNoLimit, kCopies);
    for (uint64_t length = 1024; length < 512 << 20; length = length * 6 / 5) {
        const double model = model_time(decider, length);
        EXPECT_NEAR(time_of(range_of(times, length), length), model, 0.1 * model) << length;
    }
}

TEST_P(FetchTimesOf, ChangeWhereTheDeciderDoes) {
    const Decider decider = decider_of(GetParam());
    for (const uint64_t longest_pin :
         {uint64_t{0}, uint64_t{64} << 10, uint64_t{3} << 20, uint64_t{16} << 20,
          uint64_t{64} << 20, uint64_t{1} << 30, kNoLimit}) {
        const FetchTimes times = fetch_times(decider, longest_pin, kCopies);
        for (uint64_t length = 1024; length < 128 << 20; length = length * 6 / 5) {
            const BufferState fresh{.can_pin = length <= longest_pin};
            EXPECT_EQ(range_of(times, length).scheme,
                      decider.decide({.length = length, .own = fresh}).scheme)
                << length << " of " << longest_pin;
        }
    }
}

TEST_P(FetchTimesOf, NeverFallAndAreUnlimited) {
    const FetchTimes times = fetch_times(decider_of(GetParam()), kNoLimit, kCopies);
    ASSERT_GT(times.count, 0u);
    EXPECT_EQ(times.ranges[times.count - 1].upto, UINT64_MAX);
    uint64_t before = 0;
    for (size_t i = 0; i < times.count; ++i) {
        EXPECT_GT(times.ranges[i].upto, before);
        before = times.ranges[i].upto;
        EXPECT_GE(times.ranges[i].per_byte, 0);
        EXPECT_GE(times.ranges[i].latency, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Profiles, FetchTimesOf, testing::Values("graphene", "infini", "hdr200"),
                         [](const auto& one) { return std::string(one.param); });

TEST(FetchTimes, AForcedSchemeIsTheOnlyOne) {
    for (const auto& [setting, scheme] : {std::pair{SchemeSetting::kSuperpipeline, Scheme::kStaged},
                                          std::pair{SchemeSetting::kZeroCopy, Scheme::kPlaced}}) {
        const FetchTimes times = fetch_times(decider_of("hdr200", setting), kNoLimit, kCopies);
        for (size_t i = 0; i < times.count; ++i) EXPECT_EQ(times.ranges[i].scheme, scheme);
    }
}

TEST(FetchTimes, WhatCannotBePinnedIsStaged) {
    const FetchTimes times = fetch_times(decider_of("hdr200"), 0, kCopies);
    for (size_t i = 0; i < times.count; ++i) EXPECT_EQ(times.ranges[i].scheme, Scheme::kStaged);
}

}  // namespace fetch_times_test
}  // namespace tern
