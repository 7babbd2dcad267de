// SPDX-License-Identifier: BSD-3-Clause

// Credit by writes to the writer's credit word.

#include <unistd.h>

#include <chrono>

#include "one_way.h"
#include "rogue_world.h"
#include "tern/base/tunables.h"

namespace tern::test {
namespace {

// Of messages that wait for the smallest block, and do not go cold instead.
constexpr uint32_t kLength = BlockWriter::max_payload(4096) / 8;

Status send_one(Node& node, Channel& channel) {
    uint32_t length = 0;
    return node.engine->am_bcopy(
        channel, 1,
        [](void* to) {
            memset(to, 'b', kLength);
            return kLength;
        },
        length);
}

class EngineCreditTest : public OneWayTest {
  protected:
    explicit EngineCreditTest(const EngineSettings& settings = small_blocks())
        : OneWayTest(settings) {}

    void SetUp() override { begin(sender, kSetUp, std::string(kLength, 'a')); }
    Status send() { return send_one(sender, *channel); }
    // Sends until the block is full; nobody polls. Returns how many were sent.
    size_t fill() {
        size_t count = 0;
        while (count < 1000 && send() == Status::kOk) ++count;
        EXPECT_TRUE(channel->sending.stalled);
        return count;
    }
    bool sleeps() {
        return until([this] { sender.poll(); },
                     [this] { return sender.engine->sleep()->arm() == Status::kOk; });
    }
    // The receiver takes messages until the sender is woken. False: it never is.
    bool wakes() {
        return until([this] { receiver.poll(); }, [this] { return readable(fd, 0); });
    }

    static constexpr size_t kSetUp = 200;  // messages before the test

    // Blocks do not grow.
    static EngineSettings small_blocks() {
        EngineSettings settings = quick_settings();
        settings.block_first = settings.block_most = 4096;
        return settings;
    }
};

TEST_F(EngineCreditTest, AStreamIsPaidByWrites) {
    const uint64_t cold = receiver.engine->counters().sent_cold;
    for (int i = 0; i < 5000; ++i)
        ASSERT_TRUE(sender.send(*channel, 1, std::string(kLength, 'a'), receiver));
    ASSERT_TRUE(until([this] { poll(); }, [this] { return receiver.messages.size() == 5000; }));
    const uint64_t words = receiver.engine->counters().credit_words;
    const uint64_t frames = receiver.engine->counters().sent_cold - cold;
    EXPECT_GE(words, 100u);
    EXPECT_GE(frames, 5000 * kLength / kMostAhead) << "the word does not go too far ahead";
    EXPECT_LT(frames, words / 2);
}

// The sender does not poll, so it sees the credit word only.
TEST_F(EngineCreditTest, TheSenderNeedNotPoll) {
    size_t sent = fill();
    ASSERT_TRUE(
        until([this] { receiver.poll(); }, [&] { return receiver.messages.size() == sent; }));
    const size_t more = fill();
    EXPECT_GE(more, 4u);
    sent += more;
    ASSERT_TRUE(
        until([this] { receiver.poll(); }, [&] { return receiver.messages.size() == sent; }));
}

// The sender expects a message as short as the last one, which needs no credit, and does not look
// at its credit word. This one is longer than the rest of the block.
TEST_F(EngineCreditTest, ALongerMessageThanTheLastOneFindsTheCredit) {
    const auto send_bytes = [this](uint32_t bytes) {
        uint32_t length = 0;
        return sender.engine->am_bcopy(
            *channel, 1,
            [=](void* to) {
                memset(to, 'c', bytes);
                return bytes;
            },
            length);
    };
    constexpr size_t kShort = 4096 / kStep * 3 / 4;  // messages that leave a quarter of the block
    size_t sent = 0;
    while (sent < kShort || !channel->sends.takes_frames()) {
        ASSERT_EQ(send_bytes(8), Status::kOk);
        ++sent;
    }
    ASSERT_TRUE(
        until([this] { receiver.poll(); }, [&] { return receiver.messages.size() == sent; }));
    const uint32_t* const word = &channel->sending.words.at->credit;
    ASSERT_TRUE(until([this] { receiver.poll(); },
                      [&] {
                          return __atomic_load_n(word, __ATOMIC_RELAXED) -
                                     channel->sending.path.freed() >=
                                 4096 / 2;
                      }));
    const uint64_t cold = sender.engine->counters().sent_cold;
    ASSERT_EQ(send_bytes(BlockWriter::max_payload(4096)), Status::kOk);
    EXPECT_EQ(sender.engine->counters().sent_cold, cold);
    ASSERT_TRUE(
        until([this] { receiver.poll(); }, [&] { return receiver.messages.size() == sent + 1; }));
}

TEST_F(EngineCreditTest, AFrameWakesASenderThatSleepsBeforeItIsPaid) {
    for (int round = 0; round < 20; ++round) {
        (void)fill();
        ASSERT_TRUE(sleeps()) << round;
        ASSERT_TRUE(wakes()) << round;
        ASSERT_TRUE(until([this] { sender.poll(); }, [this] { return send() == Status::kOk; }))
            << round;
    }
}

// The credit word is written after the sender has looked at it for the last time.
TEST_F(EngineCreditTest, AFrameWakesASenderThatHasMissedAWrite) {
    for (int round = 0; round < 20; ++round) {
        const size_t before = receiver.messages.size();
        const size_t count = fill();
        const uint64_t words = receiver.engine->counters().credit_words;
        const uint64_t frames = receiver.engine->counters().sent_cold;
        // The receiver writes, and does not know of the call yet.
        ASSERT_TRUE(until([this] { receiver.poll(); },
                          [&] { return receiver.engine->counters().credit_words > words; }));
        ASSERT_TRUE(until([this] { receiver.poll(); },
                          [&] { return receiver.messages.size() >= before + count; }));
        // A frame has told the credit if a write of the word was still under way. The sender, which
        // does not try to send, would not notice.
        if (receiver.engine->counters().sent_cold == frames) {
            ASSERT_TRUE(sleeps()) << round;
            ASSERT_TRUE(wakes()) << round;
        }
        ASSERT_TRUE(until([this] { sender.poll(); }, [this] { return send() == Status::kOk; }))
            << round;
    }
}

// What it is told is not enough for a long message: it sleeps again, and is woken again.
TEST_F(EngineCreditTest, ASenderMaySleepAgainAndAgain) {
    (void)fill();
    ASSERT_TRUE(sleeps());
    for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(wakes()) << round;
        for (int i = 0; i < 100; ++i) poll();
        (void)fill();
        ASSERT_TRUE(sleeps()) << round;
    }
}

// The sender gives its block up to get a larger one when it goes to sleep already, and gets none,
// because the receiver has revoked the block meanwhile.
class RevokedCreditTest : public EngineCreditTest {
  protected:
    RevokedCreditTest() : EngineCreditTest(settings()) {}

    static EngineSettings settings() {
        EngineSettings settings = quick_settings();
        settings.block_first = 4096;
        settings.block_most = 8192;
        settings.promotion.window = kWindow;
        settings.promotion.keep = kWindow + 1;  // so that each window's end revokes the block
        return settings;
    }
    bool drain() {
        return until([this] { poll(); }, [this] { return receiver.messages.size() == sent_; });
    }
    void count_fill() { sent_ += fill(); }
    void send_until(size_t count) {
        while (sent_ < count) {
            ASSERT_TRUE(until([this] { poll(); }, [this] { return send() == Status::kOk; }));
            ++sent_;
            ASSERT_TRUE(drain());
        }
    }

    static constexpr uint32_t kWindow = 1000;
    size_t sent_ = 0;
};

TEST_F(RevokedCreditTest, ASenderThatMaySendColdDoesNotSleep) {
    // From the next window's beginning on the receiver grants a block.
    ASSERT_NO_FATAL_FAILURE(send_until(kWindow));
    for (int i = 0; i < 1000; ++i) poll();  // until the old block is released
    ASSERT_NO_FATAL_FAILURE(send_until(kWindow + 50));
    for (int i = 0; i < 1000; ++i) poll();
    for (int i = 0; i < 7; ++i) {
        ASSERT_NO_FATAL_FAILURE(count_fill());
        ASSERT_TRUE(drain());
    }
    // The last frames in the block end the window.
    ASSERT_NO_FATAL_FAILURE(send_until(2 * kWindow - 10 - kSetUp));
    for (int i = 0; i < 1000; ++i) poll();
    ASSERT_TRUE(channel->sending.path.hot());
    while (sender.poll() != 0) {
    }
    ASSERT_NO_FATAL_FAILURE(count_fill());
    ASSERT_TRUE(channel->sending.path.release_due())
        << "at the eighth stall it wants a larger block";
    // It gives the block up in arm().
    Status armed = sender.engine->sleep()->arm();
    while (armed == Status::kInProgress) {
        sender.poll();
        if (send() == Status::kOk) return;
        armed = sender.engine->sleep()->arm();
    }
    ASSERT_EQ(armed, Status::kOk);
    EXPECT_TRUE(wakes()) << "a send could go cold";
}

// Short stalls are part of a stream: a check in each would take a place of the wire.
TEST_F(EngineCreditTest, OnlyALongStallChecksThePeer) {
    (void)fill();
    ASSERT_TRUE(until([this] { sender.poll(); }, [this] { return !channel->sends.reports(); }));
    const auto begin = std::chrono::steady_clock::now();
    const auto before = channel->sends.next();
    for (int i = 0; i < 10'000; ++i) ASSERT_EQ(send(), Status::kNoResource);
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_LE(channel->sends.next() - before, took / kSilence);
    EXPECT_TRUE(until([this] { (void)send(); }, [&] { return channel->sends.next() != before; }));
}

// A program that polls rarely, since it computes in between, answers each message. Each is more
// than a quarter of the block, so its credit is due at once.
TEST_F(EngineCreditTest, AnAnswerBringsTheCredit) {
    constexpr uint32_t kLong = 1100;
    constexpr uint64_t kTrips = 80;
    std::string why;
    Channel* back = receiver.engine->attach(sender.engine->address(), this, why);
    ASSERT_TRUE(back) << why;
    ASSERT_TRUE(receiver.send(*back, 1, "first", sender));
    ASSERT_TRUE(until([this] { poll(); }, [this] { return sender.messages.size() == 1; }));
    while (receiver.poll() != 0 || sender.poll() != 0) {
    }
    const uint64_t before = receiver.engine->counters().credit_words;
    for (uint64_t i = 0; i < kTrips; ++i) {
        receiver.messages.clear();
        ASSERT_TRUE(sender.send(*channel, 1, std::string(kLong, 'a'), receiver));
        ASSERT_TRUE(until(
            [this] {
                ::usleep(20);
                (void)receiver.engine->poller()->look();
                receiver.poll();
            },
            [this] { return !receiver.messages.empty(); }));
        sender.messages.clear();
        ASSERT_TRUE(receiver.send(*back, 1, "answer", sender));
        ASSERT_TRUE(until([this] { sender.poll(); }, [this] { return !sender.messages.empty(); }));
    }
    EXPECT_LE(receiver.engine->counters().credit_words - before, kTrips / 4);
    receiver.engine->leave(back, this);
}

class RogueCreditTest : public testing::Test, public RogueWorld<Node> {
  protected:
    // The victim writes into a block of the rogue's.
    void SetUp() override {
        ASSERT_NO_FATAL_FAILURE(meet());
        std::string why;
        channel = victim.engine->attach(rogue->address(), &victim, why);
        ASSERT_TRUE(channel) << why;
        const BlockOffer grant{.address = reinterpret_cast<uint64_t>(rogue->window().data()),
                               .rkey = rogue->window().rkey(),
                               .size = 4096,
                               .most = 4096,
                               .flags = 0};
        rogue->send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kOffer),
                          std::string(reinterpret_cast<const char*>(&grant), sizeof(grant)));
        ASSERT_TRUE(turn([this] { return rogue->words().has_value(); }));
    }
    Status send() { return send_one(victim, *channel); }
    void write_credit(uint32_t freed) {
        rogue->write_to(&freed, sizeof(freed),
                        rogue->words()->address + offsetof(WriterWords::Pair, credit),
                        rogue->words()->rkey, 0);
    }

    Channel* channel = nullptr;
};

TEST_F(RogueCreditTest, GoodCreditIsTaken) {
    while (send() == Status::kOk) {
    }
    EXPECT_TRUE(channel->sending.stalled);
    constexpr uint32_t kFrame = in_steps(kLength);
    write_credit(4 * kFrame);
    uint32_t more = 0;
    while (send() == Status::kOk) ++more;
    EXPECT_GE(more, 2u) << "one may go with the wrap";
    EXPECT_LE(more, 4u);
}

TEST_F(RogueCreditTest, CreditForMoreThanWasWritten) {
    while (send() == Status::kOk) {
    }
    write_credit(8192);
    (void)send();
    EXPECT_TRUE(dropped());
    EXPECT_NE(victim.reason.find("credit"), std::string::npos) << victim.reason;
}

TEST_F(RogueCreditTest, CreditThatIsNoWholeUnit) {
    while (send() == Status::kOk) {
    }
    write_credit(12);
    (void)send();
    EXPECT_TRUE(dropped());
}

// Nobody but the rogue is stopped.
TEST_F(RogueCreditTest, CreditFromFarAheadIsNotTaken) {
    while (send() == Status::kOk) {
    }
    for (const uint32_t freed : {kMostAhead + 8, 0x80000008u}) {
        write_credit(freed);
        EXPECT_EQ(send(), Status::kNoResource);
        EXPECT_FALSE(channel->failed);
    }
}

TEST_F(RogueCreditTest, CallsAreAnsweredOnce) {
    for (int i = 0; i < 100; ++i)
        rogue->send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kCreditRequest),
                          "");
    for (int i = 0; i < 1000; ++i) {
        victim.poll();
        rogue->poll();
    }
    EXPECT_FALSE(rogue->over());
    EXPECT_LE(rogue->credit_frames(), 1u);
}

TEST_F(RogueCreditTest, ACallHasNoPayload) {
    rogue->send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kCreditRequest), "now");
    EXPECT_TRUE(dropped());
}

}  // namespace
}  // namespace tern::test
