// SPDX-License-Identifier: BSD-3-Clause
// Messages that wait for each other, to go as one frame.
#include <atomic>
#include <thread>

#include "common/random.h"
#include "common/seed.h"
#include "one_way.h"
#include "rogue_world.h"
#include "verbs_faults.h"

namespace tern::test {
namespace {

EngineSettings holding(PollMode poll) {
    EngineSettings settings = quick_settings();
    settings.poll = poll;
    settings.batch.after = 0;  // every short message may wait
    return settings;
}

std::string text(uint64_t number, size_t length) {
    std::string bytes(length, static_cast<char>('a' + number % 26));
    if (length >= sizeof(number)) memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
}

// Two nodes, of which one sends. By blocks, and without. Time passes when the test says so.
class BatchTest : public OneWayTest, public testing::WithParamInterface<PollMode> {
  protected:
    BatchTest() : OneWayTest(holding(GetParam())) {}

    void SetUp() override {
        std::string why;
        ASSERT_GE(batches().enable(), 0);
        channel = sender.engine->attach(receiver.engine->address(), this, why);
        ASSERT_TRUE(channel) << why;
        const bool blocks = GetParam() == PollMode::kMemory;
        uint64_t sent = 0;
        ASSERT_TRUE(until([&] { EXPECT_TRUE(send(sent++, 8) && flush() && arrive(sent)); },
                          [&] { return sent >= 20 && channel->sending.path.hot() == blocks; }));
        receiver.messages.clear();
    }
    bool send(uint64_t number, size_t length) {
        return sender.send(*channel, static_cast<uint32_t>(number % 32), text(number, length),
                           receiver);
    }
    // What has been sent arrives nevertheless.
    bool flush() {
        return until(
            [this] { poll(); },
            [this] { return sender.engine->flushing()->flush(*channel, {}) == Status::kOk; });
    }
    bool arrive(size_t count) {
        return until([this] { poll(); }, [&] { return receiver.messages.size() >= count; });
    }
    void wait_a_little() {
        for (int i = 0; i < 2000; ++i) receiver.poll();
    }
    // The messages from `first` on, of these lengths, and no others.
    void expect(uint64_t first, const std::vector<size_t>& lengths) {
        ASSERT_EQ(receiver.messages.size(), lengths.size());
        for (size_t i = 0; i < lengths.size(); ++i) {
            EXPECT_EQ(receiver.messages[i].id, (first + i) % 32);
            EXPECT_EQ(receiver.messages[i].data, text(first + i, lengths[i])) << i;
        }
    }
    Batches& batches() { return sender.engine->background().batches(); }
    bool held() const { return channel->sends.held(); }
};

TEST_P(BatchTest, GoesWhenTheTimeHasPassed) {
    const Counters before = sender.engine->counters();
    const std::vector<size_t> lengths{0, 1, 7, 8, 9, 100, 400};
    for (size_t i = 0; i < lengths.size(); ++i) ASSERT_TRUE(send(i, lengths[i]));
    EXPECT_TRUE(held());
    wait_a_little();
    EXPECT_EQ(receiver.messages.size(), 0u);
    batches().on_timer();
    ASSERT_TRUE(arrive(lengths.size()));
    wait_a_little();
    expect(0, lengths);
    const Counters after = sender.engine->counters();
    EXPECT_EQ(after.batches - before.batches, 1u);
    EXPECT_EQ(after.batched - before.batched, lengths.size());
    EXPECT_EQ(after.bcopies - before.bcopies, lengths.size()) << "the function that was called";
    EXPECT_EQ(after.shorts, before.shorts);
    const bool blocks = GetParam() == PollMode::kMemory;
    EXPECT_EQ(after.sent_hot - before.sent_hot, blocks ? 1u : 0u);
    EXPECT_EQ(after.sent_cold - before.sent_cold, blocks ? 0u : 1u);
}

TEST_P(BatchTest, GoesWhenItIsFull) {
    for (uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(send(i, 100));
    ASSERT_TRUE(arrive(900));
    ASSERT_TRUE(flush() && arrive(1000));
    expect(0, std::vector<size_t>(1000, 100));
    EXPECT_GE(sender.engine->counters().batches, 50u);
}

TEST_P(BatchTest, GoesBeforeWhatFollows) {
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    EXPECT_TRUE(held());
    ASSERT_TRUE(send(2, 2000)) << "which is too long to wait";
    ASSERT_TRUE(arrive(3));
    expect(0, {8, 20, 2000});
}

TEST_P(BatchTest, GoesBeforeAFlush) {
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    EXPECT_FALSE(sender.engine->flushing()->flush(*channel, {}) == Status::kOk);
    ASSERT_TRUE(flush() && arrive(2));
    expect(0, {8, 20});
}

// A stream's sender polls between its messages. One that polls twice in vain waits.
TEST_P(BatchTest, GoesWhenTheProcessWaits) {
    ASSERT_TRUE(send(0, 8));
    for (int i = 0; i < 100; ++i) sender.poll();
    ASSERT_TRUE(arrive(1));
    ASSERT_TRUE(flush());
    ASSERT_TRUE(send(1, 20));
    ASSERT_TRUE(arrive(2));
    expect(0, {8, 20});
}

TEST_P(BatchTest, GoesBeforeASleep) {
    std::string why;
    ASSERT_GE(sender.engine->sleep()->event_fd(why), 0) << why;
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    (void)sender.engine->sleep()->arm();
    EXPECT_FALSE(held());
    ASSERT_TRUE(arrive(2));
    expect(0, {8, 20});
}

TEST_P(BatchTest, GoesWhenItsLastUserLeaves) {
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    sender.engine->leave(std::exchange(channel, nullptr), this);
    ASSERT_TRUE(arrive(2));
    expect(0, {8, 20});
    ASSERT_TRUE(until([this] { poll(); }, [this] { return sender.engine->connections() == 0; }));
}

TEST_P(BatchTest, GoesWhenNobodyHoldsMessagesAnyMore) {
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    batches().disable();
    ASSERT_TRUE(arrive(2));
    expect(0, {8, 20});
}

// Messages are as many as the block and the queue permit; those of a receiver that takes nothing
// are refused at last, and none is lost.
TEST_P(BatchTest, WaitsForAReceiverThatTakesNothing) {
    uint32_t length = 0;
    uint64_t sent = 0;
    const auto pack = [&](void* to) {
        memcpy(to, text(sent, 64).data(), 64);
        return 64u;
    };
    while (sent < 100'000 && sender.engine->am_bcopy(*channel, static_cast<uint32_t>(sent % 32),
                                                     pack, length) == Status::kOk) {
        ++sent;
        sender.poll();
    }
    EXPECT_LT(sent, 100'000u);
    ASSERT_TRUE(flush() && arrive(sent));
    expect(0, std::vector<size_t>(sent, 64));
}

TEST_P(BatchTest, IsLostWithItsConnection) {
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    sender.engine->cancel(*channel);
    ASSERT_TRUE(until([this] { poll(); }, [this] { return sender.engine->table().size() == 0; }));
    ASSERT_EQ(sender.closures.size(), 1u);
    EXPECT_EQ(sender.closures[0].second, Status::kCanceled);
    channel = nullptr;
}

TEST_P(BatchTest, EndsWithAUserWhoLeavesByForce) {
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    sender.engine->leave_at_once(*channel, this);
    EXPECT_TRUE(channel->sends.idle());
    channel = nullptr;
    ASSERT_TRUE(until([this] { poll(); }, [this] { return sender.engine->table().size() == 0; }));
}

TEST_P(BatchTest, FailsItsConnectionIfTheDeviceRefusesIt) {
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    watch_posts(channel->qp->context);
    const VerbsFault fault(Verb::kPostSend, 1, ENOMEM);
    batches().on_timer();
    ASSERT_TRUE(until(
        [this] {
            poll();
            if (sender.closures.empty()) (void)sender.engine->flushing()->flush(*channel, {});
        },
        [this] { return !sender.closures.empty(); }));
    EXPECT_EQ(sender.closures[0].second, Status::kDevice);
    channel = nullptr;
    ASSERT_TRUE(until([this] { poll(); }, [this] { return sender.engine->table().size() == 0; }));
}

TEST_P(BatchTest, EndsWithTheDevice) {
    ASSERT_TRUE(send(0, 8) && send(1, 20));
    sender.engine->break_down("the test says so");
    EXPECT_FALSE(held());
    ASSERT_TRUE(
        until([this] { sender.poll(); }, [this] { return sender.engine->table().size() == 0; }));
    channel = nullptr;
}

// Another thread lets the time pass all the time, also when a batch has begun and is empty.
TEST_P(BatchTest, IsNeverEmpty) {
    std::atomic<bool> stop = false;
    std::thread timer([&] {
        while (!stop) batches().on_timer();
    });
    bool all = true;
    for (uint64_t i = 0; i < 20'000 && all; ++i) {
        all = send(i, 8);
        receiver.poll();
    }
    all = all && flush() && arrive(20'000);
    stop = true;
    timer.join();
    ASSERT_TRUE(all) << sender.reason << receiver.reason;
    expect(0, std::vector<size_t>(20'000, 8));
}

// Another thread lets the time pass, at any moment.
TEST_P(BatchTest, KeepsAllBytesAndTheirOrder) {
    Random random(any_seed());
    std::atomic<bool> stop = false;
    std::thread timer([&] {
        while (!stop) {
            batches().on_timer();
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    });
    std::vector<size_t> lengths;
    while (lengths.size() < 20'000) {
        const size_t length = random.chance(2) ? random.below(8000) : random.below(600);
        if (!send(lengths.size(), length)) break;
        lengths.push_back(length);
        if (random.chance(5)) poll();
        if (random.chance(1) && !flush()) break;
    }
    const bool all = lengths.size() == 20'000 && flush() && arrive(lengths.size());
    stop = true;
    timer.join();
    ASSERT_TRUE(all);
    expect(0, lengths);
    EXPECT_GE(sender.engine->counters().batches, 500u);
}

INSTANTIATE_TEST_SUITE_P(, BatchTest, testing::Values(PollMode::kMemory, PollMode::kCq),
                         [](const auto& each) {
                             return each.param == PollMode::kMemory ? "Blocks" : "Completions";
                         });

// Two receivers.
class BurstTest : public testing::Test {
  protected:
    static EngineSettings settings() {
        EngineSettings settings = quick_settings();
        settings.batch.after = 4;  // a mark, and four behind it
        return settings;
    }
    void SetUp() override {
        if (!writes_in_order()) GTEST_SKIP() << kNoBlocks;
        ASSERT_GE(sender_.engine->background().batches().enable(), 0);
        for (int i = 0; i < 2; ++i) {
            std::string why;
            channels_[i] = sender_.engine->attach(receivers_[i].engine->address(), this, why);
            ASSERT_TRUE(channels_[i]) << why;
            uint64_t sent = 0;
            ASSERT_TRUE(until(
                [&] {
                    EXPECT_TRUE(sender_.send(*channels_[i], 1, text(0, 8), receivers_[i]));
                    ++sent;
                    poll();
                },
                [&] { return sent >= 20 && channels_[i]->sending.path.hot(); }));
            ASSERT_TRUE(arrive(i, sent));
        }
    }
    void TearDown() override {
        for (Channel* channel : channels_)
            if (channel != nullptr) sender_.engine->leave(channel, this);
    }
    void poll() {
        sender_.poll();
        for (Node& receiver : receivers_) receiver.poll();
    }
    bool arrive(int i, size_t count) {
        const bool all =
            until([this] { poll(); }, [&] { return receivers_[i].messages.size() >= count; });
        receivers_[i].messages.clear();
        return all;
    }
    // To both in turns, without a poll. The work requests to one are complete before the next to
    // it.
    void burst(uint64_t messages) {
        for (uint64_t k = 0; k < messages; ++k) {
            for (int i = 0; i < 2; ++i) {
                ASSERT_EQ(sender_.send_number(*channels_[i], 1, k), Status::kOk);
                receivers_[i].poll();
            }
        }
    }

    Node sender_{settings()};
    Node receivers_[2] = {Node(settings()), Node(settings())};
    Channel* channels_[2] = {};
};

TEST_F(BurstTest, GoesTogetherThoughFewAreUnderWay) {
    const uint64_t before = sender_.engine->counters().batched;
    burst(40);
    EXPECT_GE(sender_.engine->counters().batched - before, 20u) << "half of those to one";
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(arrive(i, 40));
}

class BatchRogueTest : public testing::Test, protected RogueWorld<Node> {
  protected:
    void SetUp() override { meet(); }
    void expect_dropped(const std::string& payload) {
        const size_t before = victim.messages.size();
        rogue->send_frame(FrameKind::kBatch, 0, payload);
        EXPECT_TRUE(turn([this] { return rogue->cut_off(); }));
        EXPECT_TRUE(dropped());
        EXPECT_EQ(victim.messages.size(), before + good_);
    }
    // An entry, as it is on the wire.
    static std::string entry(uint64_t raw, const std::string& payload = {}) {
        std::string bytes(reinterpret_cast<const char*>(&raw), sizeof(raw));
        return bytes + payload;
    }
    static std::string message(uint32_t id, std::string payload) {
        const uint64_t raw = BatchEntry::make(id, static_cast<uint32_t>(payload.size())).raw();
        payload.resize(padded(payload.size()));
        return entry(raw, payload);
    }

    size_t good_ = 0;  // messages before the error
};

TEST_F(BatchRogueTest, IsTakenIfItIsWellFormed) {
    rogue->send_frame(FrameKind::kBatch, 0,
                      message(1, "one") + message(2, "") + message(31, "333"));
    ASSERT_TRUE(turn([this] { return victim.messages.size() == 3; }));
    EXPECT_EQ(victim.messages[0].data, "one");
    EXPECT_EQ(victim.messages[1].data, "");
    EXPECT_EQ(victim.messages[2].data, "333");
    EXPECT_EQ(victim.messages[2].id, 31u);
}

TEST_F(BatchRogueTest, Empty) {
    expect_dropped("");
}

TEST_F(BatchRogueTest, ShorterThanAnEntry) {
    expect_dropped("1234");
}

TEST_F(BatchRogueTest, MessageLongerThanTheFrame) {
    good_ = 1;
    expect_dropped(message(1, "one") + entry(BatchEntry::make(2, 9).raw(), "12345678"));
}

TEST_F(BatchRogueTest, PaddingIsMissing) {
    expect_dropped(entry(BatchEntry::make(2, 4).raw(), "1234"));
}

TEST_F(BatchRogueTest, UnknownBits) {
    for (const uint64_t bit : {uint64_t{1} << 24, uint64_t{1} << 63}) {
        expect_dropped(entry(BatchEntry::make(2, 0).raw() | bit));
        meet();
    }
}

TEST_F(BatchRogueTest, KindsThatAreNoMessages) {
    for (const FrameKind kind : {FrameKind::kWrap, FrameKind::kControl, FrameKind::kBatch}) {
        expect_dropped(entry(Word().with(kind, 0, 0, 0).raw()));
        meet();
    }
}

}  // namespace
}  // namespace tern::test
