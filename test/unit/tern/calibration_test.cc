// SPDX-License-Identifier: BSD-3-Clause
// The measurements for the cost model.
#include "rendezvous/calibration.h"

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
}  // namespace tern
