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
    // Whether the kernel is asked now, by the cache, which has pins everywhere or nowhere.
    bool asks(bool pinned = true) {
        const int before = asked_;
        EXPECT_TRUE(monitor_.settle([pinned](uint64_t, uint64_t) { return pinned; }));
        return asked_ != before;
    }
    // Whether it is asked by a thread that uses a pin.
    bool user_asks() {
        const int before = asked_;
        EXPECT_TRUE(monitor_.settled());
        return asked_ != before;
    }
    void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); }

    int asked_ = 0;
    const bool always_ = !GetParam();
    HearingMonitor monitor_{std::make_unique<Kernel>(asked_), GetParam()};
};

INSTANTIATE_TEST_SUITE_P(TheOwnerTells, AskingTest, testing::Bool(),
                         [](const auto& of_all) { return of_all.param ? "OfAll" : "OfSome"; });

TEST_P(AskingTest, OnlyWhileChangesMayBeUnderWay) {
    EXPECT_EQ(user_asks(), always_) << "no change has been told";
    EXPECT_FALSE(monitor_.hear(1, 2)) << "nothing is watched for the owner to tell";
    EXPECT_TRUE(asks());
    EXPECT_TRUE(user_asks());
    wait();
    EXPECT_EQ(user_asks(), always_);
    EXPECT_EQ(asks(), always_);
}

TEST_P(AskingTest, NotAboutMemoryThatIsNotPinned) {
    for (int i = 0; i < 100; ++i) {
        (void)monitor_.hear(1, 2);
        EXPECT_EQ(asks(false), always_);
        EXPECT_EQ(user_asks(), always_);
    }
}

TEST_P(AskingTest, NotWhenTheKernelHasToldTheChange) {
    (void)monitor_.hear(1, 2);
    EXPECT_TRUE(asks());
    monitor_.review([](uint64_t, uint64_t) { return true; });
    EXPECT_TRUE(user_asks()) << "that was another change";
    monitor_.review([](uint64_t start, uint64_t end) {
        EXPECT_EQ(start, 1u);
        EXPECT_EQ(end, 2u);
        return false;
    });
    EXPECT_EQ(user_asks(), always_);
}

// Who uses a pin cannot see whether the change matters: the cache must look first.
TEST_P(AskingTest, NotBeforeTheCacheHasLooked) {
    (void)monitor_.hear(1, 2);
    const int before = asked_;
    EXPECT_EQ(monitor_.settled(), always_);
    EXPECT_EQ(asked_ != before, always_);
    EXPECT_TRUE(asks());
    EXPECT_TRUE(user_asks());
}

TEST_P(AskingTest, NotAfterTheLastChangeHasEnded) {
    monitor_.change_ends();
    EXPECT_EQ(asks(), always_) << "that change began before the owner told of any";
    monitor_.change_begins();
    monitor_.change_ends();
    EXPECT_EQ(asks(), always_);
    (void)monitor_.hear(1, 2);
    EXPECT_TRUE(asks()) << "a change has been told";
    monitor_.change_begins();
    (void)monitor_.hear(3, 4);
    monitor_.change_begins();
    EXPECT_TRUE(asks());
    EXPECT_TRUE(asks(false)) << "of changes that have begun the cache cannot say which they are";
    monitor_.change_ends();
    EXPECT_TRUE(asks()) << "one of two has ended";
    monitor_.change_ends();
    EXPECT_EQ(asks(), always_);
    (void)monitor_.hear(1, 2);
    monitor_.change_begins();
    monitor_.change_ends();
    EXPECT_EQ(user_asks(), always_) << "nor does the cache need to look";
}

}  // namespace
}  // namespace tern
