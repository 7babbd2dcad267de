// SPDX-License-Identifier: BSD-3-Clause

// Messages that a peer has numbered, and repeats by writes with immediate data.

#include "tern/veloblock/repeats.h"

#include <functional>
#include <string>

#include "rogue_world.h"

namespace tern::test {
namespace {

class RepeatTest : public testing::Test, public RogueWorld<Node> {
  protected:
    RepeatTest() : RogueWorld(memory_settings()) {}
    void SetUp() override { meet(); }

    void number(const RepeatFrame& frame) {
        rogue->send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kRepeat),
                          {reinterpret_cast<const char*>(&frame), sizeof(frame)}, hot_);
    }
    void repeat_it(uint32_t number, uint32_t higher) {
        rogue->write_to("", 0, 0, 0, repeat::immediate(number, higher, hot_));
        ++repeats_;
    }
    bool get_block() {
        return turn([&] {
            if (!rogue->grant()) rogue->send_frame(FrameKind::kActiveMessage, 1, "hello");
            return rogue->grant().has_value();
        });
    }
    uint64_t value_of(size_t message) const {
        repeat::Words words{};
        const std::string& data = victim.messages.at(message).data;
        EXPECT_EQ(data.size(), sizeof(words));
        memcpy(words.data(), data.data(), std::min(data.size(), sizeof(words)));
        EXPECT_EQ(words[0], kWords[0]);
        EXPECT_EQ(words[3], kWords[3]);
        return words[4];
    }

    static constexpr repeat::Words kWords{11, 12, 13, 14, 15};
    uint16_t hot_ = 0;      // frames that the rogue has written into the block
    uint16_t repeats_ = 0;  // and those that it has repeated
};

TEST_F(RepeatTest, AreDeliveredAsTheirMessages) {
    number({.number = 3, .id = 7, .words = kWords});
    repeat_it(3, 0);
    repeat_it(3, 2);
    repeat_it(3, repeat::kMostHigher);
    ASSERT_TRUE(turn([this] { return victim.messages.size() == 3; }));
    for (const auto& message : victim.messages) EXPECT_EQ(message.id, 7u);
    EXPECT_EQ(value_of(0), 15u);
    EXPECT_EQ(value_of(1), 17u);
    EXPECT_EQ(value_of(2), 17u + repeat::kMostHigher);
    // The number gets another message.
    number({.number = 3, .id = 8, .words = kWords});
    repeat_it(3, 1);
    ASSERT_TRUE(turn([this] { return victim.messages.size() == 4; }));
    EXPECT_EQ(victim.messages[3].id, 8u);
    EXPECT_EQ(value_of(3), 16u);
}

// Each takes a receive buffer, and is allowed as a cold message is.
TEST_F(RepeatTest, AreAllowedAsColdMessages) {
    number({.number = 0, .id = 1, .words = kWords});
    for (unsigned i = 1; i <= 1000; ++i) {
        repeat_it(0, 0);
        ASSERT_TRUE(turn([&] { return victim.messages.size() == i; }));
    }
    EXPECT_EQ(victim.engine->counters().received_cold, 1001u);
    // An allowance whenever half of them are used up, and at most 8 polls later (Poller).
    EXPECT_GE(victim.engine->counters().sent_cold, 1000u / (allowance::kMost / 2 + 8));
}

// The frames of the block that precede it come first.
TEST_F(RepeatTest, KeepTheOrder) {
    ASSERT_TRUE(get_block());
    number({.number = 0, .id = 2, .words = kWords});
    repeat_it(0, 0);
    ASSERT_TRUE(turn([this] { return victim.messages.back().id == 2; }));
    const size_t before = victim.messages.size();
    const Word word(FrameKind::kActiveMessage, 9, 0, 0,
                    static_cast<uint16_t>(rogue->cold() + repeats_));
    rogue->write(&word, sizeof(word), rogue->grant()->size - 8);
    ++hot_;
    repeat_it(0, 1);
    ASSERT_TRUE(turn([&] { return victim.messages.size() == before + 2; }));
    EXPECT_EQ(victim.messages[before].id, 9u);
    EXPECT_EQ(victim.messages[before + 1].id, 2u);
}

TEST_F(RepeatTest, MissingFramesEndTheConnection) {
    ASSERT_TRUE(get_block());
    number({.number = 0, .id = 2, .words = kWords});
    ++hot_;
    repeat_it(0, 0);
    EXPECT_TRUE(dropped());
}

TEST_F(RepeatTest, NumberThatIsNotGiven) {
    repeat_it(0, 0);
    EXPECT_TRUE(dropped());
    ASSERT_NO_FATAL_FAILURE(meet());
    number({.number = 5, .id = 1, .words = kWords});
    repeat_it(4, 0);
    EXPECT_TRUE(dropped());
    EXPECT_TRUE(victim.messages.empty());
}

TEST_F(RepeatTest, FramesThatMakeNoSense) {
    for (const RepeatFrame& frame : {RepeatFrame{.number = repeat::kNumbers, .id = 1, .words = {}},
                                     RepeatFrame{.number = 0, .id = 32, .words = {}}}) {
        number(frame);
        EXPECT_TRUE(dropped());
        ASSERT_NO_FATAL_FAILURE(meet());
    }
    rogue->send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kRepeat), "short");
    EXPECT_TRUE(dropped());
}

}  // namespace
}  // namespace tern::test
