// SPDX-License-Identifier: BSD-3-Clause
#include "tern/veloblock/repeats.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "common/seed.h"

namespace tern {
namespace {

using repeat::Words;

// What a sender does with each message: 0 as it is, 1 with a frame before it, 2 as a repeat.
struct Sender {
    SentRepeats table;
    unsigned frames = 0, repeats = 0;

    // Returns what the receiver hears of it, if it is a repeat.
    bool send(uint32_t id, const Words& words, ReceivedRepeats& to, uint32_t& got_id, Words& got) {
        SentRepeats::Place& place = table.place_of(words);
        uint64_t higher = place.higher(id, words);
        if (higher > repeat::kMostHigher) {
            if (!SentRepeats::learn(place, id, words)) return false;
            const RepeatFrame frame{table.number_of(place), id, words};
            EXPECT_TRUE(to.define(frame));
            SentRepeats::give_number(place);
            ++frames;
            higher = 0;
        }
        ++repeats;
        SentRepeats::sent(place, higher);
        const uint32_t immediate =
            repeat::immediate(table.number_of(place), static_cast<uint32_t>(higher), 0x1234);
        EXPECT_TRUE(repeat::is_repeat(immediate));
        EXPECT_EQ(repeat::sequence(immediate), 0x1234);
        const ReceivedRepeats::Message* const message = to.take(immediate);
        EXPECT_NE(message, nullptr);
        if (message == nullptr) return false;
        got_id = message->id;
        got = message->words;
        return true;
    }
};

TEST(Repeats, BeginWithTheThird) {
    Sender sender;
    ReceivedRepeats receiver;
    uint32_t id = 0;
    Words got;
    for (uint64_t value = 1; value <= 10; ++value) {
        const Words words{1, 2, 3, 4, value * 7};
        EXPECT_EQ(sender.send(5, words, receiver, id, got), value >= 3) << value;
        if (value < 3) continue;
        EXPECT_EQ(id, 5u);
        EXPECT_EQ(got, words);
    }
    EXPECT_EQ(sender.frames, 1u);
}

TEST(Repeats, AnotherMessageIsNone) {
    Sender sender;
    ReceivedRepeats receiver;
    uint32_t id = 0;
    Words got;
    const Words words{1, 2, 3, 4, 5};
    for (int i = 0; i < 4; ++i) (void)sender.send(5, words, receiver, id, got);
    SentRepeats::Place& place = sender.table.place_of(words);
    EXPECT_EQ(place.higher(5, words), 0u);
    EXPECT_GT(place.higher(6, words), repeat::kMostHigher);
    for (size_t i = 0; i < 4; ++i) {
        Words other = words;
        ++other[i];
        EXPECT_GT(place.higher(5, other), repeat::kMostHigher) << i;
    }
    EXPECT_EQ(place.higher(5, {1, 2, 3, 4, 5 + repeat::kMostHigher}), repeat::kMostHigher);
    EXPECT_GT(place.higher(5, {1, 2, 3, 4, 6 + repeat::kMostHigher}), repeat::kMostHigher);
    EXPECT_GT(place.higher(5, {1, 2, 3, 4, 4}), repeat::kMostHigher);
}

TEST(Repeats, ForgedNumbersAreRefused) {
    ReceivedRepeats receiver;
    for (uint32_t number = 0; number < repeat::kNumbers; ++number)
        EXPECT_EQ(receiver.take(repeat::immediate(number, 0, 0)), nullptr);
    EXPECT_FALSE(receiver.define({.number = repeat::kNumbers, .id = 0, .words = {}}));
    EXPECT_FALSE(receiver.define({.number = 0, .id = 32, .words = {}}));
    EXPECT_TRUE(receiver.define({.number = 63, .id = 31, .words = {}}));
    EXPECT_EQ(receiver.take(repeat::immediate(62, 0, 0)), nullptr);
    EXPECT_NE(receiver.take(repeat::immediate(63, 0, 0)), nullptr);
}

// Messages that jump, or that take turns at their places, cost few frames.
TEST(Repeats, FewFramesForWhatChanges) {
    Sender sender;
    ReceivedRepeats receiver;
    uint32_t id = 0;
    Words got;
    unsigned sent = 0;
    for (uint64_t round = 0; round < 10000; ++round)
        for (int i = 0; i < 4; ++i, ++sent)
            (void)sender.send(5, {1, 2, 3, 4, round * 1000}, receiver, id, got);
    EXPECT_LE(sender.frames, sent / 100);
}

// Any messages: the receiver hears the same as was sent.
TEST(Repeats, RandomMessages) {
    std::mt19937_64 random(test::any_seed());
    Sender sender;
    ReceivedRepeats receiver;
    uint32_t id = 0;
    Words got;
    std::vector<Words> known(100);
    for (Words& words : known)
        words = {random() % 4 << 48, random() % 3, random() % 3, random() % 200, 0};
    for (int i = 0; i < 100000; ++i) {
        const size_t which = random() % (random() % 2 == 0 ? 5 : known.size());
        Words& words = known[which];
        words[4] += random() % 100 == 0 ? random() : random() % 3;
        if (sender.send(static_cast<uint32_t>(which % 2), words, receiver, id, got)) {
            ASSERT_EQ(got, words);
            ASSERT_EQ(id, which % 2);
        }
    }
    EXPECT_GT(sender.repeats, 4000u);
}

}  // namespace
}  // namespace tern
