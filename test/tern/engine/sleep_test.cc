// SPDX-License-Identifier: BSD-3-Clause

// Sleeping receivers, and peers that misuse what they are told.

#include <functional>

#include "one_way.h"
#include "rogue.h"

namespace tern::test {
namespace {

// Polls only this node.
bool arms(Node& node) {
    for (int tries = 0; tries < 1000; ++tries)
        if (node.poll() == 0 && node.engine->sleep()->arm() == Status::kOk) return true;
    return false;
}

class EngineSleepTest : public OneWayTest {
  protected:
    void SetUp() override { begin(receiver, 100, "hello"); }
    void post() {
        uint64_t payload = 5;
        ASSERT_EQ(
            sender.engine->am_short(*channel, 1, sizeof(payload),
                                    [&](std::byte* to) { memcpy(to, &payload, sizeof(payload)); }),
            Status::kOk);
    }
    Counters counters() const { return receiver.engine->counters(); }
};

// A receiver that sleeps between any two messages tells that once, and again when it stays awake.
TEST_F(EngineSleepTest, TellsSeldom) {
    for (uint64_t round = 0; round < 3; ++round) {
        for (size_t i = 1; i <= 100; ++i) {
            ASSERT_TRUE(arms(receiver)) << i;
            ASSERT_NO_FATAL_FAILURE(post());
            ASSERT_TRUE(readable(fd, 5000)) << i;
            ASSERT_TRUE(
                until([this] { receiver.poll(); }, [&] { return receiver.messages.size() == i; }));
            sender.poll();
        }
        EXPECT_EQ(counters().notify_requests, 2 * round + 1);
        const uint64_t notices = counters().notifications;
        EXPECT_GE(notices, (round + 1) * 90);
        for (int i = 0; i < 10000; ++i) receiver.poll();
        EXPECT_EQ(counters().notify_requests, 2 * round + 2);
        for (int i = 0; i < 50; ++i) {
            ASSERT_NO_FATAL_FAILURE(post());
            poll();
        }
        ASSERT_TRUE(until([this] { poll(); }, [this] { return receiver.messages.size() == 150; }));
        EXPECT_EQ(counters().notifications, notices) << "the sender knows that it is awake";
        receiver.messages.clear();
    }
}

// Many notified frames: each is delivered once, and the receive buffers suffice.
TEST_F(EngineSleepTest, WakesToABurst) {
    ASSERT_TRUE(arms(receiver));
    ASSERT_NO_FATAL_FAILURE(post());
    ASSERT_TRUE(readable(fd, 5000));
    for (int i = 1; i < 3000; ++i)
        ASSERT_TRUE(
            sender.send(*channel, static_cast<uint32_t>(i % 30), std::to_string(i), receiver));
    ASSERT_TRUE(until([this] { poll(); }, [this] { return receiver.messages.size() == 3000; }));
    for (int i = 1; i < 3000; ++i)
        ASSERT_EQ(receiver.messages[static_cast<size_t>(i)].data, std::to_string(i));
    EXPECT_GT(counters().notifications, 2000u);
}

// Memory besides the receive buffers and the send pool counts too.
TEST_F(EngineSleepTest, MemoryIsCounted) {
    EXPECT_GE(
        sender.engine->usage().registered_bytes,
        sender.engine->usage().receive_queue_bytes + sender.engine->usage().send_pool_bytes + 4096);
}

class RogueSleepTest : public testing::Test {
  protected:
    RogueSleepTest() { EXPECT_TRUE(meet(rogue)); }

    bool turn(Rogue& other, const std::function<bool()>& done) {
        return until(
            [&] {
                victim.poll();
                other.poll();
            },
            done);
    }
    bool meet(Rogue& other) {
        return other.begin(victim.engine->address()) && turn(other, [&] { return other.up(); });
    }
    bool get_block(Rogue& other) {
        return until(
            [&] {
                other.send_frame(FrameKind::kActiveMessage, 1, "hello");
                victim.poll();
                other.poll();
            },
            [&] { return other.grant().has_value(); });
    }
    static void tell(Rogue& other, const WordsAddress& word, size_t size = sizeof(WordsAddress)) {
        std::string payload(reinterpret_cast<const char*>(&word), sizeof(word));
        payload.resize(size);
        other.send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kWriterWords),
                         payload);
    }
    WordsAddress good() const {
        return {.address = reinterpret_cast<uint64_t>(rogue.window().data()),
                .rkey = rogue.window().rkey()};
    }
    bool dropped(Rogue& other) {
        return turn(other, [&] { return other.over(); });
    }

    Node victim{memory_settings()};
    Rogue rogue;
};

TEST_F(RogueSleepTest, SpeaksProperlyAndIsTold) {
    ASSERT_TRUE(get_block(rogue));
    tell(rogue, good());
    const auto* word = reinterpret_cast<const uint32_t*>(rogue.window().data());
    const auto value = [&] { return __atomic_load_n(word, __ATOMIC_RELAXED); };
    for (int i = 0; i < 1000; ++i) victim.poll();
    EXPECT_EQ(value(), 0u);
    std::string why;
    const int fd = victim.engine->sleep()->event_fd(why);
    ASSERT_TRUE(arms(victim));
    ASSERT_TRUE(turn(rogue, [&] { return value() != 0; }));
    EXPECT_TRUE(notify::is_of_block(value()));
    const uint32_t first = value();
    // The rogue says that it knows, and writes no frame: the victim stops watching the block.
    rogue.write_to("", 0, rogue.grant()->address, rogue.grant()->rkey, first);
    for (int i = 0; i < 100; ++i) victim.poll();
    // Remaining packets of the handshake may wake the victim.
    int early = 0;
    do {
        ASSERT_TRUE(arms(victim));
    } while (readable(fd, 50) && ++early < 5);
    EXPECT_LT(early, 5) << "nobody looks, as nobody need";
    ASSERT_TRUE(turn(rogue, [&] { return value() == 0; }));
    ASSERT_TRUE(arms(victim));
    ASSERT_TRUE(turn(rogue, [&] { return value() != 0; }));
    EXPECT_NE(value(), first) << "what is on its way since the last time tells nothing of this";
}

TEST_F(RogueSleepTest, WordsThatMakeNoSense) {
    WordsAddress bad[3] = {good(), good(), good()};
    bad[0].address = 0;
    bad[1].address += 2;
    bad[2].reserved = 1;
    for (const WordsAddress& word : bad) {
        Rogue other;
        ASSERT_TRUE(meet(other));
        ASSERT_TRUE(get_block(other));
        tell(other, word);
        EXPECT_TRUE(dropped(other));
    }
    for (const size_t size : {0, 8, 24}) {
        Rogue other;
        ASSERT_TRUE(meet(other));
        ASSERT_TRUE(get_block(other));
        tell(other, good(), size);
        EXPECT_TRUE(dropped(other));
    }
}

TEST_F(RogueSleepTest, WordWithoutABlock) {
    tell(rogue, good());
    EXPECT_TRUE(dropped(rogue));
}

TEST_F(RogueSleepTest, SecondWord) {
    ASSERT_TRUE(get_block(rogue));
    tell(rogue, good());
    tell(rogue, good());
    EXPECT_TRUE(dropped(rogue));
}

// The rogue loses its connection, and no other connection is affected.
TEST_F(RogueSleepTest, WordThatMayNotBeWrittenTo) {
    Node honest;
    std::string why;
    Channel* channel = honest.engine->attach(victim.engine->address(), this, why);
    ASSERT_TRUE(channel) << why;
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(honest.send(*channel, 5, "hello", victim));
    ASSERT_TRUE(get_block(rogue));
    WordsAddress word = good();
    word.rkey ^= 0x5a5a00;
    tell(rogue, word);
    for (int i = 0; i < 100; ++i) victim.poll();
    ASSERT_TRUE(arms(victim));
    EXPECT_TRUE(dropped(rogue));
    EXPECT_TRUE(arms(victim));
    victim.messages.clear();
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(honest.send(*channel, 5, "hello", victim));
    EXPECT_TRUE(until([&] { victim.poll(); }, [&] { return victim.messages.size() == 40; }));
    honest.engine->leave(channel, this);
}

// Only frames in a block are notified.
TEST_F(RogueSleepTest, NoticeWithoutABlock) {
    rogue.write_to("", 0, 0, 0, notify::word(1));
    EXPECT_TRUE(dropped(rogue));
}

}  // namespace
}  // namespace tern::test
