// SPDX-License-Identifier: BSD-3-Clause
#include "tern/base/shortage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMs = 1'000'000;

// A device with little room, of which others hold a part.
struct Device {
    uint64_t room = 0;
    uint64_t held = 0;  // by what can be given up
    int error = ENOMEM;
    std::vector<std::string> steps;
    std::vector<std::string> lines;

    auto attempt() {
        return [this](uint64_t size) {
            steps.push_back("ask " + std::to_string(size));
            errno = error;
            return size <= room;
        };
    }
    bool give_up(uint64_t size) {
        steps.push_back("give up " + std::to_string(size));
        errno = 0;
        const uint64_t gone = std::min(size, held);
        held -= gone;
        room += gone;
        return gone != 0;
    }
    void warn(const std::string& line) { lines.push_back(line); }
    uint64_t take(const Scarce& of, uint64_t size, uint64_t least) {
        return of.take(size, least, attempt(), *this);
    }
};

TEST(ScarceTest, GivesUpPinsBeforeItTakesLess) {
    Device device{.room = 20, .held = 30};
    EXPECT_EQ(device.take(scarce::kReceives, 64, 16), 32u);
    EXPECT_THAT(device.steps, ElementsAre("ask 64", "give up 64", "ask 64", "ask 32"));
    Device none{.room = 20};
    EXPECT_EQ(none.take(scarce::kReceives, 64, 16), 16u);
    EXPECT_THAT(none.steps, ElementsAre("ask 64", "give up 64", "ask 32", "give up 32", "ask 16"));
    EXPECT_EQ(none.take(scarce::kReceives, 64, 32), 0u);
    EXPECT_EQ(errno, ENOMEM);
}

TEST(ScarceTest, TakesNoLessOfWhatMustBeWhole) {
    Device device{.room = 20, .held = 10};
    EXPECT_EQ(device.take(scarce::kBlock, 64, 1), 0u);
    EXPECT_THAT(device.steps, ElementsAre("ask 64", "give up 64", "ask 64"));
    Device optional{.held = 100};
    EXPECT_EQ(optional.take(scarce::kMoreReceives, 64, 1), 0u);
    EXPECT_THAT(optional.steps, ElementsAre("ask 64")) << "pins are worth more";
}

TEST(ScarceTest, GivesNothingUpForAnotherError) {
    Device device{.held = 100, .error = EFAULT};
    EXPECT_EQ(device.take(scarce::kRing, 64, 1), 0u);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_THAT(device.steps, ElementsAre("ask 64"));
}

TEST(ScarceTest, NamesTheLimitOnlyWhereALimitIsReached) {
    for (const Scarce* of : {&scarce::kPinned, &scarce::kBlock, &scarce::kInterface}) {
        EXPECT_THAT(of->remedy(), HasSubstr("raise the limit of locked memory (ulimit -l)"));
        for (const int error : {ENODEV, EPERM, EINVAL, EFAULT})
            EXPECT_THAT(of->remedy(error), Not(HasSubstr("ulimit"))) << error;
        // What a child of fork() gets from the device of its parent.
        EXPECT_THAT(of->remedy(ENODEV), HasSubstr("forked child"));
    }
    EXPECT_EQ(scarce::kInterface.remedy(EMFILE), "raise the limit of open files (ulimit -n)");
    EXPECT_THAT(scarce::kConnection.remedy(), Not(HasSubstr("ulimit")));
    EXPECT_THAT(scarce::kConnection.remedy(), HasSubstr("lower UCX_TERN_QP_MAX"));
    EXPECT_EQ(scarce::kWatched.remedy(), "raise vm.max_map_count");
}

TEST(BackoffTest, WaitsLongerEachTimeUntilThereIsRoom) {
    Backoff backoff(10, 16);
    uint64_t now = 5;
    EXPECT_TRUE(backoff.over(now));
    for (const uint64_t pause : {10, 20, 40, 80, 160, 160}) {
        backoff.refused(now);
        EXPECT_EQ(backoff.next(), now + pause * kMs);
        EXPECT_FALSE(backoff.over(now + pause * kMs - 1));
        now += pause * kMs;
        EXPECT_TRUE(backoff.over(now));
    }
    backoff.granted();
    EXPECT_TRUE(backoff.over(0));
    backoff.refused(now);
    EXPECT_EQ(backoff.next(), now + 10 * kMs);
}

TEST(ShortageTest, IsToldOnceAndTriedAgain) {
    Device device{.room = 32};
    Shortage shortage(scarce::kReceives, 10);
    shortage.tell(device);
    EXPECT_TRUE(device.lines.empty());
    // Half of it: the rest is tried again, and the pause does not grow.
    for (uint64_t now : {uint64_t{0}, 10 * kMs, 20 * kMs}) {
        EXPECT_TRUE(shortage.may_try(now));
        EXPECT_EQ(shortage.obtain(64, 16, now, device.attempt(), device), 32u);
        EXPECT_FALSE(shortage.may_try(now + 10 * kMs - 1));
        shortage.tell(device);
    }
    ASSERT_EQ(device.lines.size(), 1u);
    EXPECT_THAT(device.lines[0], HasSubstr("the receive buffers"));
    EXPECT_THAT(device.lines[0], HasSubstr("Cannot allocate memory"));
    EXPECT_THAT(device.lines[0], HasSubstr("ulimit -l"));
    device.room = 64;
    EXPECT_EQ(shortage.obtain(64, 16, 0, device.attempt(), device), 64u);
    EXPECT_TRUE(shortage.may_try(0));
}

}  // namespace
}  // namespace tern
