// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdlib>

#include "entity.h"

namespace uct_test {
namespace {

constexpr struct {
    const char* setting;
    const char* value;
} kFixedCosts[] = {
#include "bench/costs.inc"
};

// Checks that each test leaves no objects on the device.
class Leftovers : public testing::EmptyTestEventListener {
    void OnTestProgramStart(const testing::UnitTest&) override { objects("queue_pairs"); }
    void OnTestEnd(const testing::TestInfo&) override {
        if (conformance::is_team_process()) return;
        static const std::vector<std::string> kinds = {"queue_pairs", "shared_receive_queues",
                                                       "completion_queues", "memory_regions"};
        const std::vector<uint64_t> left = objects_of(kinds);
        for (size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(left[i], 0u) << kinds[i] << " left";
    }
};

}  // namespace
}  // namespace uct_test

int main(int argc, char** argv) {
    for (const auto& [setting, value] : uct_test::kFixedCosts) setenv(setting, value, 0);
    testing::InitGoogleTest(&argc, argv);
    testing::UnitTest::GetInstance()->listeners().Append(new uct_test::Leftovers);
    return RUN_ALL_TESTS();
}
