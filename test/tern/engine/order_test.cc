// SPDX-License-Identifier: BSD-3-Clause

// What writes of one queue pair may do to each other. tern/tern_order.sh runs this with the faults
// swap-writes and replay-write of the software HCA.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "one_way.h"

namespace tern::test {
namespace {

class OrderTest : public OneWayTest {
  protected:
    explicit OrderTest(const EngineSettings& settings = small_blocks()) : OneWayTest(settings) {}

    void SetUp() override { begin(receiver, 200, std::string(kLength, 'a')); }
    Status send() {
        uint32_t length = 0;
        return sender.engine->am_bcopy(
            *channel, 1,
            [](void* to) {
                memset(to, 'b', kLength);
                return kLength;
            },
            length);
    }
    size_t fill() {
        size_t count = 0;
        while (count < 1000 && send() == Status::kOk) ++count;
        return count;
    }
    // The channel by which the receiver reads.
    Channel* back() {
        std::string why;
        return receiver.engine->attach(sender.engine->address(), this, why);
    }

    // Of messages that wait for the smallest block, and do not go cold instead.
    static constexpr uint32_t kLength = BlockWriter::max_payload(4096) / 8;

    static EngineSettings small_blocks() {
        EngineSettings settings = quick_settings();
        settings.block_first = settings.block_most = 4096;
        return settings;
    }
};

// The reader frees half of the block, and then all, at short intervals. The writer must learn of
// all but the last quarter.
TEST_F(OrderTest, TheLastCreditIsNotReplacedByAnOlderOne) {
    Channel* const reader = back();
    size_t most = 0;  // that the block takes
    size_t sent = 0;
    const auto all_came = [&] { return receiver.messages.size() == sent; };
    for (int round = 0; round < 50; ++round) {
        const size_t all = fill();
        sent += all;
        most = std::max(most, all);
        ASSERT_TRUE(until([this] { receiver.poll(); }, all_came)) << round;
        // The sender knows of the credit by the word or by a frame.
        const uint32_t* const word = &channel->sending.words.at->credit;
        ASSERT_TRUE(until([this] { poll(); },
                          [&] {
                              const uint32_t freed = reader->receiving.path.credit_word();
                              const uint32_t by_word = __atomic_load_n(word, __ATOMIC_RELAXED);
                              return std::min(freed - by_word,
                                              freed - channel->sending.path.freed()) < 4096 / 4;
                          }))
            << round;
        const size_t more = fill();
        EXPECT_GE(more + 2, most * 3 / 4) << round;
        sent += more;
        ASSERT_TRUE(until([this] { poll(); }, all_came)) << round;
    }
    receiver.engine->leave(reader, this);
}

// The notify word has the value that was written to it last.
TEST_F(OrderTest, ASleeperIsNotForgotten) {
    Channel* const reader = back();
    const auto arms = [this] {
        for (int tries = 0; tries < 1000; ++tries)
            if (receiver.poll() == 0 && receiver.engine->sleep()->arm() == Status::kOk) return true;
        return false;
    };
    for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(arms());
        ASSERT_TRUE(until([this] { receiver.poll(); },
                          [&] { return !receiver.engine->sleep()->is_asleep(); }))
            << "many polls wake it";
        ASSERT_TRUE(arms());
        const uint32_t* const word = &channel->sending.words.at->notify;
        EXPECT_TRUE(until([] {},
                          [&] {
                              return notify::generation(__atomic_load_n(word, __ATOMIC_RELAXED)) ==
                                     reader->notifying.generation;
                          }))
            << round;
        ASSERT_TRUE(
            until([this] { receiver.poll(); },
                  [&] { return !receiver.engine->sleep()->is_asleep() && reader->sends.idle(); }));
    }
    receiver.engine->leave(reader, this);
}

// Messages of all lengths, in both directions: nothing is lost, and no byte is wrong.
TEST_F(OrderTest, RandomMessagesArriveInOrder) {
    Channel* const reader = back();
    uint64_t seed = 1;
    const auto random = [&] {
        return (seed = seed * 6364136223846793005 + 1442695040888963407) >> 33;
    };
    struct Side {
        Node& node;
        Channel& channel;
        Node& other;
        uint64_t sent = 0, came = 0;
    } sides[] = {{sender, *channel, receiver}, {receiver, *reader, sender}};
    receiver.messages.clear();
    const auto text = [](uint64_t number, size_t length) {
        std::string bytes(length, static_cast<char>('a' + number % 26));
        memcpy(bytes.data(), &number, std::min(length, sizeof number));
        return bytes;
    };
    constexpr uint64_t kMessages = 4000;
    while (sides[0].came != kMessages || sides[1].came != kMessages) {
        for (Side& side : sides) {
            while (side.sent != kMessages && random() % 8 != 0) {
                const size_t length = sizeof(uint64_t) + side.sent * 7919 % 1500;
                ASSERT_TRUE(side.node.send(side.channel, 1, text(side.sent, length), side.other));
                ++side.sent;
            }
            while (!side.other.messages.empty()) {
                const std::string& data = side.other.messages.front().data;
                ASSERT_EQ(data, text(side.came, data.size()));
                ASSERT_EQ(data.size(), sizeof(uint64_t) + side.came * 7919 % 1500);
                side.other.messages.pop_front();
                ++side.came;
            }
        }
        poll();
    }
    receiver.engine->leave(reader, this);
}

// With the fault replay-write, a frame is placed again that has been read. It ends the connection.
TEST_F(OrderTest, AFrameThatIsPlacedAgainIsNoMessage) {
    const char* const faults = getenv("SOFTHCA_FAULTS");
    const bool again = faults != nullptr && strstr(faults, "replay-write") != nullptr;
    const auto over = [this] { return !sender.closures.empty(); };
    receiver.messages.clear();
    for (uint64_t i = 0; i != 3000 && !over(); ++i) {
        Status sent = Status::kNoResource;
        ASSERT_TRUE(until(
            [&] {
                sent = sender.send_number(*channel, 1, i);
                poll();
            },
            [&] { return sent != Status::kNoResource || over(); }));
        if (sent != Status::kOk) break;
        ASSERT_TRUE(
            until([this] { poll(); }, [&] { return !receiver.messages.empty() || over(); }));
        if (receiver.messages.empty()) break;
        ASSERT_EQ(receiver.messages.front().number(), i);
        receiver.messages.pop_front();
        ASSERT_TRUE(receiver.messages.empty());
    }
    ASSERT_TRUE(until([this] { poll(); }, [&] { return !again || over(); }));
    EXPECT_EQ(over(), again);
    if (over()) channel = nullptr;
}

}  // namespace
}  // namespace tern::test
