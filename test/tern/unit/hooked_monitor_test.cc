// SPDX-License-Identifier: BSD-3-Clause
// When the monitor that hooks help asks the other monitor.
#include "tern/pinning/watch/hooked_monitor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace tern {
namespace {

// Stands for the kernel, which takes a system call to ask.
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

class HookedMonitorTest : public testing::TestWithParam<bool> {
  protected:
    // Whether the kernel is asked now.
    bool asks() {
        const int before = asked_;
        EXPECT_TRUE(monitor_.settled());
        return asked_ != before;
    }
    void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); }

    int asked_ = 0;
    const bool always_ = !GetParam();
    HookedMonitor monitor_{std::make_unique<Kernel>(asked_), GetParam()};
};

INSTANTIATE_TEST_SUITE_P(TheHooksReport, HookedMonitorTest, testing::Bool(),
                         [](const auto& of_all) { return of_all.param ? "OfAll" : "OfSome"; });

TEST_P(HookedMonitorTest, OnlyWhileChangesMayBeUnderWay) {
    EXPECT_EQ(asks(), always_) << "no change has been announced";
    EXPECT_FALSE(monitor_.on_announced(1, 2)) << "nothing is watched that needs a hook";
    EXPECT_TRUE(asks());
    EXPECT_TRUE(asks()) << "nothing says that it has happened";
    wait();
    EXPECT_EQ(asks(), always_);
}

TEST_P(HookedMonitorTest, NotAfterTheLastChangeHasEnded) {
    monitor_.change_ends();
    EXPECT_EQ(asks(), always_) << "that change began before the hooks were installed";
    monitor_.change_begins();
    monitor_.change_ends();
    EXPECT_EQ(asks(), always_);
    (void)monitor_.on_announced(1, 2);
    EXPECT_TRUE(asks()) << "a change has been announced";
    monitor_.change_begins();
    (void)monitor_.on_announced(3, 4);
    monitor_.change_begins();
    EXPECT_TRUE(asks());
    monitor_.change_ends();
    EXPECT_TRUE(asks()) << "one of two has ended";
    monitor_.change_ends();
    EXPECT_EQ(asks(), always_);
}

}  // namespace
}  // namespace tern
