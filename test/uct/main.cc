// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdlib>

#include "entity.h"

namespace uct_test {
namespace {

// Checks that each test leaves no objects on the device.
class Leftovers : public testing::EmptyTestEventListener {
    void OnTestProgramStart(const testing::UnitTest&) override { objects("queue_pairs"); }
    void OnTestEnd(const testing::TestInfo&) override {
        if (conformance::is_team_process()) return;
        for (const char* kind :
             {"queue_pairs", "shared_receive_queues", "completion_queues", "memory_regions"}) {
            EXPECT_EQ(objects(kind), 0u) << kind << " left";
        }
    }
};

}  // namespace
}  // namespace uct_test

int main(int argc, char** argv) {
    // The cost model is not to decide by what a machine measures at start-up.
    setenv("UCX_TERN_RNDV_COPY_BW", "20GBps", 0);
    setenv("UCX_TERN_RNDV_PIN_BW", "30GBps", 0);
    setenv("UCX_TERN_RNDV_PIN_LATENCY", "5us", 0);
    testing::InitGoogleTest(&argc, argv);
    testing::UnitTest::GetInstance()->listeners().Append(new uct_test::Leftovers);
    return RUN_ALL_TESTS();
}
