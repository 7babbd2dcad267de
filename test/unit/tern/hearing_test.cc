// SPDX-License-Identifier: BSD-3-Clause
// When the monitor that the owner of the cache helps asks the other monitor.
#include "pinning/watch/hearing_monitor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace tern {
namespace {

// Asking it takes a system call, as it were.
class Kernel final : public Monitor {
  public:
    explicit Kernel(int& asked) : asked_(asked) {}
    MonitorKind kind() const override { return MonitorKind::kUserfaultfd; }
    bool watch(uint64_t, uint64_t) override { return true; }
    void changed(const MemoryChange&) override {}
    bool settled() override { return ++asked_ != 0; }
    bool quiet() override { return true; }

  private:
    int& asked_;
};

class AskingTest : public testing::TestWithParam<bool> {
  protected:
    // Whether the kernel is asked now.
    bool asks() {
        const int before = asked_;
        EXPECT_TRUE(monitor_.settled());
        return asked_ != before;
    }
    void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); }

    int asked_ = 0;
    HearingMonitor monitor_{std::make_unique<Kernel>(asked_), GetParam()};
};

INSTANTIATE_TEST_SUITE_P(TheOwnerTells, AskingTest, testing::Bool(),
                         [](const auto& of_all) { return of_all.param ? "OfAll" : "OfSome"; });

TEST_P(AskingTest, OnlyWhileChangesMayBeUnderWay) {
    const bool always = !GetParam();
    EXPECT_TRUE(asks()) << "a change may have begun before the owner told";
    wait();
    EXPECT_TRUE(asks()) << "for the last time";
    EXPECT_EQ(asks(), always);
    EXPECT_FALSE(monitor_.hear(1, 2)) << "nothing is watched for the owner to tell";
    EXPECT_TRUE(asks());
    wait();
    EXPECT_TRUE(asks());
    EXPECT_EQ(asks(), always);
}

TEST_P(AskingTest, NotAfterTheLastChangeHasEnded) {
    const bool always = !GetParam();
    monitor_.change_ends();
    EXPECT_TRUE(asks()) << "that change began before the owner told of any";
    monitor_.change_begins();
    monitor_.change_ends();
    EXPECT_EQ(asks(), always);
    (void)monitor_.hear(1, 2);
    EXPECT_TRUE(asks()) << "a change has been told";
    monitor_.change_begins();
    (void)monitor_.hear(3, 4);
    monitor_.change_begins();
    EXPECT_TRUE(asks());
    monitor_.change_ends();
    EXPECT_TRUE(asks()) << "one of two has ended";
    monitor_.change_ends();
    EXPECT_EQ(asks(), always);
}

}  // namespace
}  // namespace tern
