// SPDX-License-Identifier: BSD-3-Clause
// The words that describe frames.
#include <gtest/gtest.h>

#include "schedules.h"
#include "tern/veloblock/frame.h"

namespace tern {
namespace {

TEST(Word, HasTheDocumentedLayout) {
    EXPECT_EQ(Word(FrameKind::kActiveMessage, 0, 0, 0, 0).raw(), 0x8000000000000000u);
    EXPECT_EQ(Word(FrameKind::kControl, 31, 0x1234, 0x5678, 0x9abc).raw(), 0x809abc56785f1234u);
}

TEST(Word, ComesBackAsItWas) {
    each_schedule(10'000, [](Random random) -> std::string {
        const auto kind = static_cast<FrameKind>(random.below(4));
        const auto id = static_cast<uint32_t>(random.below(Word::kMaxId + 1));
        const auto length = static_cast<uint32_t>(random.below(Word::kMaxLength + 1));
        const auto credit = static_cast<uint16_t>(random());
        const auto sequence = static_cast<uint16_t>(random());
        const Word word(Word(kind, id, length, credit, sequence).raw());
        if (!word.present() || !word.well_formed()) return "not well-formed";
        return word.kind() == kind && word.id() == id && word.length() == length &&
                       word.credit() == credit && word.sequence() == sequence
                   ? ""
                   : "not the same";
    });
}

TEST(Word, IsNotPresentBeforeItsLastByte) {
    const uint64_t raw = Word(FrameKind::kControl, 31, 0xffff, 0xffff, 0xffff).raw();
    for (unsigned bytes = 0; bytes < 8; ++bytes)
        EXPECT_FALSE(Word(raw & ((uint64_t{1} << 8 * bytes) - 1)).present());
    EXPECT_FALSE(Word().present());
}

TEST(Word, KnowsWhatIsNoWord) {
    EXPECT_FALSE(Word(0).well_formed());
    for (uint64_t kind = 5; kind < 8; ++kind)
        EXPECT_FALSE(Word(uint64_t{1} << 63 | kind << 21).well_formed()) << "an unknown kind";
    for (unsigned bit = 56; bit < 63; ++bit)
        EXPECT_FALSE(Word(uint64_t{1} << 63 | uint64_t{1} << bit).well_formed());
}

TEST(Word, HasARoundInABlock) {
    const Word word(FrameKind::kActiveMessage, 3, 8, 5, 7);
    for (uint32_t round = 0; round < 200; ++round) {
        const Word tail = word.in_round(round);
        EXPECT_EQ(tail.raw() >> 56, 0x80 + round % 64);
        EXPECT_TRUE(tail.well_formed(round) && tail.is_active_message(round) && tail.is_usual());
        EXPECT_FALSE(tail.well_formed(round + 1) || tail.is_active_message(round + 1));
        EXPECT_TRUE(tail.as_last().last() && tail.as_last().well_formed(round));
        const uint16_t sequence = round % 2 != 0 ? 0xffff : static_cast<uint16_t>(round);
        const Word blank = Word(FrameKind::kTag, 1, 2, 3, sequence).in_round(round);
        const auto next = static_cast<uint16_t>(sequence + 1);
        EXPECT_EQ(blank.following().raw(),
                  Word(FrameKind::kTag, 1, 2, 3, next).in_round(round).raw());
        EXPECT_FALSE(tail.as_last().is_active_message(round) || tail.as_last().is_usual());
    }
}

}  // namespace
}  // namespace tern
