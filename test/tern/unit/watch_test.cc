// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/watch.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <vector>

namespace tern {
namespace {

bool readable(int fd, int limit) {
    pollfd it{fd, POLLIN, 0};
    return ::poll(&it, 1, limit) == 1;
}

TEST(LookInterval, GrowsFromSoonToSeldom) {
    LookInterval interval;
    EXPECT_LE(interval.value(), 100'000u);
    uint64_t time = 0;
    unsigned looks = 0;
    for (; time < 60'000'000'000; interval.grow()) {
        time += interval.value();
        ++looks;
    }
    // About two looks per second in the long run.
    EXPECT_LE(looks, 140u);
    EXPECT_LE(interval.value(), 1'000'000'000u);
    interval.reset();
    EXPECT_LE(interval.value(), 100'000u);
}

class WatchTest : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(watch.open()); }
    // Does the work of the background thread.
    void look_when_due() {
        ASSERT_TRUE(readable(watch.look_fd(), 5000));
        watch.look();
    }

    Watch watch;
    uint64_t words[2] = {0, 7};
    std::vector<Watched> both() const { return {{&words[0], words[0]}, {&words[1], words[1]}}; }
};

TEST_F(WatchTest, WakesWhenAWordHasChanged) {
    watch.use_thread();
    for (uint64_t& word : words) {
        watch.publish(both());
        for (int i = 0; i < 5; ++i) look_when_due();
        EXPECT_FALSE(readable(watch.wake_fd(), 0)) << "nothing has changed";
        __atomic_store_n(&word, 9, __ATOMIC_RELAXED);
        look_when_due();
        EXPECT_TRUE(readable(watch.wake_fd(), 0));
        EXPECT_TRUE(watch.withdraw());
        EXPECT_FALSE(readable(watch.wake_fd(), 0));
        EXPECT_FALSE(watch.withdraw());
    }
}

TEST_F(WatchTest, NobodyLooksAtWhatIsWithdrawn) {
    watch.use_thread();
    {
        auto gone = std::make_unique<uint64_t>(0);
        watch.publish({{gone.get(), 0}});
        ASSERT_TRUE(readable(watch.look_fd(), 5000));
        EXPECT_FALSE(watch.withdraw());
    }
    watch.look();
    EXPECT_FALSE(readable(watch.wake_fd(), 0));
    EXPECT_FALSE(readable(watch.look_fd(), 10)) << "and the timer is not set again";
}

TEST_F(WatchTest, NothingToLookAtCostsNothing) {
    watch.publish({});
    EXPECT_FALSE(watch.withdraw());
    EXPECT_FALSE(readable(watch.look_fd(), 10));
}

// Without a background thread, the timer wakes the sleeper, which looks for itself.
TEST_F(WatchTest, WithoutAThreadTheTimerWakes) {
    watch.publish(both());
    EXPECT_TRUE(readable(watch.wake_fd(), 5000));
    EXPECT_TRUE(watch.withdraw());
    EXPECT_FALSE(readable(watch.wake_fd(), 10));
    watch.publish(both());
    (void)watch.withdraw();
    EXPECT_FALSE(readable(watch.wake_fd(), 10)) << "nobody sleeps";
}

}  // namespace
}  // namespace tern
