// SPDX-License-Identifier: BSD-3-Clause

// Senders learn that they keep the receivers of their messages waiting.

#include <chrono>
#include <ctime>
#include <thread>

#include "rendezvous_node.h"

namespace tern::test {
namespace {

using std::chrono::milliseconds;

// A sender is late if its receiver waits for longer than the message and its registration take:
// more than a transfer that both sides work at takes on any machine, and less than kAbsence.
constexpr milliseconds kRegistration{5}, kAbsence{20};
constexpr int kOwnPolls = 64;

Costs slow_registration() {
    Costs costs = *find_costs("graphene");
    costs.registration.latency = std::chrono::duration<double>(kRegistration).count();
    return costs;
}

// Of this thread: on a busy machine the receiver looks only while it has a processor.
std::chrono::nanoseconds processor_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// All time between two polls counts as waiting, however busy the machine is.
RendezvousSettings patient() {
    RendezvousSettings settings;
    settings.between_polls = std::chrono::seconds(10);
    return settings;
}

class LateSenderTest : public testing::TestWithParam<SchemeSetting> {
  protected:
    explicit LateSenderTest(const RendezvousSettings& of_near = {})
        : near(GetParam(), PollMode::kAuto, RendezvousSettings().rings, slow_registration(),
               MonitorKind::kNone, of_near) {
        std::string why;
        channel = near.engine->attach(far.engine->address(), this, why);
        EXPECT_TRUE(channel) << why;
    }
    void begin(bool takes) {
        const Buffers::Piece piece{near.memory.data(), near.memory.size()};
        near.completions.clear();
        ASSERT_EQ(near.rendezvous->get(*channel, {&piece, 1}, far.address(), far.key(far.open), 0,
                                       {.takes_waited_ack = takes}, {this}),
                  Status::kInProgress);
    }
    void end() {
        ASSERT_TRUE(until([&] { poll(); }, [&] { return !near.completions.empty(); }));
        EXPECT_EQ(near.completions.front(), Status::kOk);
    }
    // Gets all of the far node's memory, which only begins to help after `absence`.
    void get(bool takes, milliseconds absence) {
        begin(takes);
        // What the near node has to do first may take long, and is no waiting.
        for (int i = 0; absence > milliseconds{} && i < kOwnPolls; ++i) near.poll();
        const auto back = processor_time() + absence;
        while (processor_time() < back) near.poll();
        end();
    }
    void poll() {
        near.poll();
        far.poll();
    }
    void SetUp() override {
        ASSERT_TRUE(until([&] { poll(); }, [&] { return channel->up(); }));
    }

    RendezvousNode near;
    RendezvousNode far{GetParam()};
    Channel* channel = nullptr;
};

// Of a receiver that only waits.
class AbsentSenderTest : public LateSenderTest {
  protected:
    AbsentSenderTest() : LateSenderTest(patient()) {}
};

const auto kSchemes = testing::Values(SchemeSetting::kSuperpipeline, SchemeSetting::kZeroCopy);
std::string name_of(const testing::TestParamInfo<SchemeSetting>& scheme) {
    return scheme.param == SchemeSetting::kZeroCopy ? "ZeroCopy" : "Superpipeline";
}
INSTANTIATE_TEST_SUITE_P(Schemes, LateSenderTest, kSchemes, name_of);
INSTANTIATE_TEST_SUITE_P(Schemes, AbsentSenderTest, kSchemes, name_of);

TEST_P(AbsentSenderTest, IsTold) {
    for (size_t i = 1; i <= 5; ++i) {
        get(true, kAbsence);
        EXPECT_EQ(far.late, i);
    }
    EXPECT_EQ(far.rendezvous->counters().waits, 5u);
    EXPECT_EQ(near.late + near.in_time, 0u);
}

TEST_P(LateSenderTest, IsNotToldIfItIsInTime) {
    for (int i = 0; i < 20; ++i) get(true, {});
    EXPECT_EQ(far.late, 0u);
    EXPECT_EQ(far.in_time, 20u);
}

TEST_P(AbsentSenderTest, IsNotToldIfItDoesNotHear) {
    get(false, kAbsence);
    EXPECT_EQ(far.late, 0u);
}

// Of several messages at a time, each waits for the others.
TEST_P(AbsentSenderTest, IsNotBlamedForOtherMessages) {
    for (int i = 0; i < 5; ++i) {
        begin(true);
        get(true, kAbsence);
        ASSERT_TRUE(until([&] { poll(); }, [&] { return near.completions.size() == 2; }));
    }
    EXPECT_EQ(far.late, 0u);
    EXPECT_EQ(far.in_time, 10u);
}

// The time that the receiver is away itself does not count.
TEST_P(LateSenderTest, IsNotBlamedForTheReceiver) {
    begin(true);
    for (int i = 0; i < 20; ++i) {
        // It looks at the clock once in so many polls.
        for (int poll = 0; poll < 32; ++poll) near.poll();
        std::this_thread::sleep_for(milliseconds(1));
    }
    end();
    EXPECT_EQ(far.late, 0u);
}

}  // namespace
}  // namespace tern::test
