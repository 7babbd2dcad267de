// SPDX-License-Identifier: BSD-3-Clause
// The measurements for the cost model.
#include "tern/rendezvous/cost_model.h"

#include "fake_registrar.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(Copies, AreMeasured) {
    const CopyCosts costs = measure_copies();
    EXPECT_GT(costs.memory_bandwidth, 1e7);
    EXPECT_GE(costs.cache_bandwidth, costs.memory_bandwidth);
    EXPECT_LT(costs.cache_bandwidth, 1e13);
    EXPECT_GT(costs.cache, 4096);
}

}  // namespace

namespace pin_cache_test {

// A cache that forgets each pin after its use must not count a registration as a look.
TEST_F(PinCacheTest, ALookIsMeasuredWithoutRegistrations) {
    for (const MonitorKind monitor : {MonitorKind::kNone, MonitorKind::kUcm}) {
        PinCache cache = make({.monitor = monitor});
        (void)measure_look(cache);
        EXPECT_EQ(cache.counters().registrations, 1u) << static_cast<int>(monitor);
    }
}

}  // namespace pin_cache_test
}  // namespace tern
