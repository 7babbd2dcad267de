// SPDX-License-Identifier: BSD-3-Clause

// Senders learn that they keep the receivers of their messages waiting.

#include <chrono>
#include <thread>

#include "mover_node.h"

namespace tern::test {
namespace {

class LateSenderTest : public testing::TestWithParam<SchemeSetting> {
  protected:
    LateSenderTest() {
        std::string why;
        channel = near.engine->attach(far.engine->address(), this, why);
        EXPECT_TRUE(channel) << why;
    }
    void begin(bool hears) {
        const Buffers::Piece piece{near.memory.data(), near.memory.size()};
        near.completions.clear();
        ASSERT_EQ(near.mover->get(*channel, {&piece, 1}, far.address(), far.key(far.open), 0,
                                  {.hears = hears}, this),
                  Status::kInProgress);
    }
    void end() {
        ASSERT_TRUE(until([&] { poll(); }, [&] { return !near.completions.empty(); }));
        EXPECT_EQ(near.completions.front(), Status::kOk);
    }
    // Gets all of the far node's memory, which only begins to help after `absence`.
    void get(bool hears, std::chrono::microseconds absence) {
        begin(hears);
        const auto back = std::chrono::steady_clock::now() + absence;
        while (std::chrono::steady_clock::now() < back) near.poll();
        end();
    }
    void poll() {
        near.poll();
        far.poll();
    }
    void SetUp() override {
        ASSERT_TRUE(until([&] { poll(); }, [&] { return channel->up(); }));
    }

    MoverNode near{GetParam()}, far{GetParam()};
    Channel* channel = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Schemes, LateSenderTest,
                         testing::Values(SchemeSetting::kSuperpipeline, SchemeSetting::kZeroCopy),
                         [](const auto& scheme) {
                             return scheme.param == SchemeSetting::kZeroCopy ? "ZeroCopy"
                                                                             : "Superpipeline";
                         });

TEST_P(LateSenderTest, IsTold) {
    for (size_t i = 1; i <= 5; ++i) {
        get(true, std::chrono::milliseconds(5));
        EXPECT_EQ(far.late, i);
    }
    EXPECT_EQ(far.mover->counters().waits, 5u);
    EXPECT_EQ(near.late + near.in_time, 0u);
}

TEST_P(LateSenderTest, IsNotToldIfItIsInTime) {
    for (int i = 0; i < 20; ++i) get(true, {});
    EXPECT_EQ(far.late, 0u);
    EXPECT_EQ(far.in_time, 20u);
}

TEST_P(LateSenderTest, IsNotToldIfItDoesNotHear) {
    get(false, std::chrono::milliseconds(5));
    EXPECT_EQ(far.late, 0u);
}

// Of several messages at a time, each waits for the others.
TEST_P(LateSenderTest, IsNotBlamedForOtherMessages) {
    for (int i = 0; i < 5; ++i) {
        begin(true);
        get(true, std::chrono::milliseconds(5));
        ASSERT_TRUE(until([&] { poll(); }, [&] { return near.completions.size() == 2; }));
    }
    EXPECT_EQ(far.late, 0u);
    EXPECT_EQ(far.in_time, 10u);
}

// The time that the receiver is away itself does not count.
TEST_P(LateSenderTest, IsNotBlamedForTheReceiver) {
    begin(true);
    const auto step = [&] {
        for (int i = 0; i < 64; ++i) near.poll();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    for (int i = 0; i < 5; ++i) step();
    end();
    EXPECT_EQ(far.late, 0u);
}

}  // namespace
}  // namespace tern::test
