// SPDX-License-Identifier: BSD-3-Clause
// Blocks: writer, reader, and a device that is slow.
#include <gtest/gtest.h>

#include <algorithm>

#include "block_ring.h"
#include "schedules.h"
#include "tern/veloblock/frame.h"

namespace tern {
namespace block_test {

using Look = BlockReader::Look;

std::vector<std::byte> payload_of(uint64_t frame, uint32_t length) {
    Random random(frame);
    std::vector<std::byte> payload(padded(length));
    for (uint32_t at = 0; at < length; at += 8) {
        const uint64_t value = random();
        memcpy(&payload[at], &value, 8);
    }
    payload.resize(length);
    return payload;
}

// One schedule: frames of all sizes, placed piece by piece while the reader looks, with credits
// that come late, twice or not at all: by frames, which are handled in order, and by the credit
// word, which the writer may see before it handles frames that were sent earlier.
class Traffic {
  public:
    explicit Traffic(Random& random)
        : random_(random),
          size_(random.chance(50) ? 512 + kStep * static_cast<uint32_t>(random.below(24))
                                  : 512u << random.below(8)),
          most_(BlockWriter::max_payload(size_)),
          typical_(random.chance(50) ? most_ : static_cast<uint32_t>(random.below(128))),
          report_late_(random.chance(50)),
          block_(size_) {}

    std::string run(unsigned steps) {
        while (steps-- > 0 && wrong().empty()) {
            switch (random_.below(6)) {
                case 0:
                case 1:
                    send();
                    break;
                case 2:
                    block_.place(random_.chance(50) ? random_.below(24) : random_.below(size_));
                    break;
                case 3:
                    receive(static_cast<unsigned>(random_.below(8)));
                    break;
                case 4:
                    report();
                    break;
                case 5:
                    credit();
                    break;
            }
            if (random_.chance(2)) expect_room();
        }
        if (wrong().empty()) expect_room();
        return wrong();
    }

  private:
    std::string wrong() const { return wrong_.empty() ? block_.wrong() : wrong_; }

    uint32_t random_length() {
        return static_cast<uint32_t>(random_.chance(20) ? random_.below(most_ + 1)
                                                        : random_.below(typical_ + 1));
    }

    bool send() {
        const uint32_t length = random_length();
        if (random_.chance(20)) return send_growing(padded(length));
        if (!block_.post(FrameKind::kActiveMessage, sent_ % 32, payload_of(sent_, length), 7,
                         static_cast<uint16_t>(sent_)))
            return false;
        ++sent_;
        return true;
    }

    // As much as fits of a payload.
    bool send_growing(uint32_t most) {
        const uint32_t piece = 8 * static_cast<uint32_t>(1 + random_.below(10));
        const uint32_t length =
            block_.post_growing(FrameKind::kActiveMessage, sent_ % 32, payload_of(sent_, most),
                                piece, 7, static_cast<uint16_t>(sent_));
        if (length != 0) ++sent_;
        return length != 0;
    }

    void receive(unsigned most) {
        Word word;
        while (most-- > 0 && block_.look(word) == Look::kFrame && wrong().empty()) {
            const std::byte* payload = block_.reader.payload(word);
            const auto expected = payload_of(received_, word.length());
            if (word.sequence() != static_cast<uint16_t>(received_) || word.id() != received_ % 32)
                wrong_ = "a frame is missing, or comes twice";
            else if (!std::equal(expected.begin(), expected.end(), payload))
                wrong_ = "a frame has other bytes";
            block_.consume(word);
            ++received_;
        }
    }

    // Reports what the reader has freed: always if a report is due, otherwise if this schedule
    // reports early.
    void report() {
        BlockReader& reader = block_.reader;
        if (!reader.due() && report_late_) return;
        if (reader.frame_due() || random_.chance(frames_)) {
            reports_.push_back({true, reader.freed()});
            reader.framed();
        } else {
            reports_.push_back({false, reader.freed()});
            reader.written();
        }
    }

    // Some reports arrive, or a frame that has arrived is handled, or the word is looked at.
    void credit() {
        if (!reports_.empty() && random_.chance(60)) arrive();
        if (random_.chance(30)) handle();
        if (random_.chance(50)) look_at_word();
    }
    void arrive() {
        const Report report = reports_.front();
        reports_.pop_front();
        if (report.frame)
            frames_arrived_.push_back(report.freed);
        else
            word_ = report.freed;
    }
    void handle() {
        if (frames_arrived_.empty()) return;
        const auto units = static_cast<uint16_t>(frames_arrived_.front() / Word::kUnit);
        if (!block_.writer.credit(units)) wrong_ = "a good credit is refused";
        if (random_.chance(90)) frames_arrived_.pop_front();
    }
    void look_at_word() {
        if (word_ == seen_) return;
        const BlockWriter::Taken taken = block_.writer.credit_word(word_);
        if (taken == BlockWriter::Taken::kMalformed) wrong_ = "a good credit word is refused";
        if (taken == BlockWriter::Taken::kYes) seen_ = word_;
    }

    // Once the reader has read all frames, and reported if a report is due, every payload finds
    // room.
    void expect_room() {
        block_.place_all();
        receive(UINT32_MAX);
        if (received_ != sent_ && wrong().empty()) wrong_ = "a frame does not arrive";
        if (block_.reader.due()) report();
        while (!reports_.empty()) arrive();
        while (!frames_arrived_.empty()) handle();
        look_at_word();
        for (const uint32_t length : {most_, random_length()})
            if (!block_.writer.plan(length).fits) wrong_ = "no room though all has been read";
    }

    Random& random_;
    uint32_t size_;
    uint32_t most_;
    uint32_t typical_;
    bool report_late_;
    SimulatedBlock block_;
    uint64_t sent_ = 0;
    uint64_t received_ = 0;
    struct Report {
        bool frame;
        uint32_t freed;
    };
    unsigned frames_ = static_cast<unsigned>(random_.chance(50) ? 0 : random_.below(101));
    std::deque<Report> reports_;  // on the wire
    std::deque<uint32_t> frames_arrived_;
    uint32_t word_ = 0;
    uint32_t seen_ = 0;
    std::string wrong_;
};

TEST(Block, CarriesEveryFrameOnceInOrderWhole) {
    each_schedule(10'000, [](Random random) {
        const auto steps = static_cast<unsigned>(random.between(10, 400));
        return Traffic(random).run(steps);
    });
}

TEST(Block, CarriesEverySize) {
    for (const uint32_t size : {512u, 576u, 960u, 4096u, 32768u, 65536u}) {
        SimulatedBlock block(size);
        Word word;
        for (uint32_t length = 0; length <= BlockWriter::max_payload(size);
             length += size < 5000 ? 1 : 37) {
            const auto payload = payload_of(length, length);
            ASSERT_TRUE(block.post(FrameKind::kActiveMessage, 1, payload, 0, 0)) << length;
            block.place_all();
            ASSERT_EQ(block.look(word), Look::kFrame);
            ASSERT_EQ(word.length(), length);
            ASSERT_TRUE(std::equal(payload.begin(), payload.end(), block.reader.payload(word)));
            block.consume(word);
            ASSERT_EQ(block.look(word), Look::kNothing);
            ASSERT_TRUE(block.writer.credit(block.reader.freed_units()));
            ASSERT_TRUE(block.writer.empty());
        }
        EXPECT_EQ(block.wrong(), "");
    }
}

// Holds wherever the next frame begins, with as much unreported as is allowed.
TEST(Block, AlwaysTakesItsLongestPayload) {
    for (uint32_t size = kMinBlock; size < 2200; size += kStep) {
        // Units: the most that makes no report due.
        const uint32_t quiet = (size / 4 - 1) / kStep * kStep / 8;
        for (uint32_t begin = 0; begin <= size / 8; begin += kStep / 8) {
            BlockWriter writer;
            writer.attach(size);
            uint16_t units = 0;
            const auto send_empty = [&] {
                const BlockWriter::Plan plan = writer.plan(0);
                ASSERT_TRUE(plan.fits);
                writer.commit(plan);
                units = static_cast<uint16_t>(units + plan.consumed / 8);
            };
            while (units < begin) {
                send_empty();
                ASSERT_TRUE(writer.credit(units));
            }
            const auto from = units;
            while (units < from + quiet) send_empty();
            ASSERT_TRUE(writer.plan(BlockWriter::max_payload(size)).fits)
                << size << " bytes, frame at " << begin;
        }
    }
}

TEST(Block, ReaderAsksForAReportAtAQuarter) {
    SimulatedBlock block(512);
    Word word;
    for (unsigned frame = 1; frame <= 512 / kStep / 4; ++frame) {
        EXPECT_FALSE(block.reader.due());
        block.post(FrameKind::kActiveMessage, 0, {}, 0, 0);
        block.place_all();
        ASSERT_EQ(block.look(word), Look::kFrame);
        block.consume(word);
    }
    EXPECT_TRUE(block.reader.due());
    block.reader.framed();
    EXPECT_FALSE(block.reader.due());
}

TEST(Block, ReaderIsPressedAtAHalf) {
    SimulatedBlock block(512);
    Word word;
    for (unsigned frame = 1; frame <= 512 / kStep / 2; ++frame) {
        EXPECT_FALSE(block.reader.pressing());
        block.post(FrameKind::kActiveMessage, 0, {}, 0, 0);
        block.place_all();
        ASSERT_EQ(block.look(word), Look::kFrame);
        block.consume(word);
    }
    EXPECT_TRUE(block.reader.pressing());
    block.reader.framed();
    EXPECT_FALSE(block.reader.pressing());
}

TEST(Block, ReaderClearsTheWordsInWhichAWriteMayEnd) {
    SimulatedBlock block(1024);
    Word word;
    for (unsigned frame = 0; frame < 40; ++frame) {
        ASSERT_TRUE(block.post(FrameKind::kActiveMessage, 0, payload_of(frame, frame * 7), 0, 0));
        block.place_all();
        const std::vector<std::byte> before(block.base(), block.base() + 1024);
        ASSERT_EQ(block.look(word), Look::kFrame);
        block.consume(word);
        for (uint32_t at = 0; at < 1024; ++at) {
            const std::byte wanted = at % kStep < kStep - 8 ? before[at] : std::byte{};
            ASSERT_EQ(block.base()[at], wanted) << frame << ", byte " << at;
        }
        ASSERT_TRUE(block.writer.credit(block.reader.freed_units()));
    }
}

// A device that has placed a write before its reader cleared it may not do so again.
TEST(Block, AWriteThatIsPlacedAgainIsMalformed) {
    for (const uint32_t length : {0u, 40u, 100u}) {
        SimulatedBlock block(512);
        Word word;
        ASSERT_TRUE(block.post(FrameKind::kActiveMessage, 0, payload_of(1, length), 0, 0));
        block.place_all();
        const std::vector<std::byte> placed(block.base(), block.base() + 512);
        ASSERT_EQ(block.look(word), Look::kFrame);
        block.consume(word);
        while (block.reader.next() != reinterpret_cast<uint64_t*>(block.base() + 504)) {
            ASSERT_TRUE(block.post(FrameKind::kActiveMessage, 0, payload_of(1, length), 0, 0));
            block.place_all();
            ASSERT_EQ(block.look(word), Look::kFrame);
            block.consume(word);
        }
        std::copy(placed.begin(), placed.end(), block.base());
        EXPECT_EQ(block.reader.look(word), Look::kMalformed) << length;
    }
}

TEST(Block, BothSidesStartAfreshOnTheNextOne) {
    SimulatedBlock block(512);
    Word word;
    block.post(FrameKind::kActiveMessage, 0, payload_of(0, 160), 0, 0);
    block.place_all();
    ASSERT_EQ(block.look(word), Look::kFrame);
    block.consume(word);
    ASSERT_TRUE(block.reader.due());

    SimulatedBlock next(4096);
    block.writer.attach(4096);
    block.reader.attach(next.base(), 4096);
    EXPECT_TRUE(block.writer.empty());
    EXPECT_FALSE(block.reader.due());
    EXPECT_EQ(block.reader.freed_units(), 0);
    EXPECT_EQ(block.reader.look(word), Look::kNothing);
    EXPECT_TRUE(block.writer.plan(BlockWriter::max_payload(4096)).fits);
}

TEST(Block, WriterRefusesCreditForWhatItHasNotWritten) {
    BlockWriter writer;
    writer.attach(4096);
    EXPECT_TRUE(writer.credit(0));
    EXPECT_FALSE(writer.credit(1));
    writer.commit(writer.plan(16));
    EXPECT_FALSE(writer.credit(kStep / 8 + 1));
    EXPECT_TRUE(writer.credit(kStep / 8));
    EXPECT_TRUE(writer.empty());
    EXPECT_TRUE(writer.credit(kStep / 8)) << "again";
    EXPECT_FALSE(writer.credit(kStep / 8 - 1)) << "frames are in order";
    EXPECT_TRUE(writer.empty());
}

using Taken = BlockWriter::Taken;

TEST(Block, OnlyFramesWithCreditForAllAreAnAnswer) {
    BlockWriter writer;
    writer.attach(4096);
    EXPECT_FALSE(writer.answered()) << "nothing was written";
    writer.commit(writer.plan(16));
    EXPECT_FALSE(writer.answered());
    EXPECT_EQ(writer.credit_word(kStep), Taken::kYes);
    EXPECT_FALSE(writer.answered()) << "the word is no frame";
    EXPECT_TRUE(writer.credit(kStep / 8));
    EXPECT_TRUE(writer.answered());
    writer.commit(writer.plan(16));
    writer.commit(writer.plan(16));
    EXPECT_FALSE(writer.answered());
    EXPECT_TRUE(writer.credit(2 * kStep / 8));
    EXPECT_FALSE(writer.answered()) << "sent before the last frame was taken";
    EXPECT_TRUE(writer.credit(3 * kStep / 8));
    EXPECT_TRUE(writer.answered());
    writer.attach(4096);
    EXPECT_FALSE(writer.answered());
}

TEST(Block, TheLastFrameFreesTheRest) {
    SimulatedBlock block(512);
    Word word;
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(block.post(FrameKind::kActiveMessage, 0, payload_of(1, 100), 0, 0));
        EXPECT_FALSE(block.writer.answered());
        block.place_all();
        ASSERT_EQ(block.look(word), Look::kFrame);
        block.consume(word);
        ASSERT_TRUE(block.writer.credit(block.reader.freed_units()));
        EXPECT_TRUE(block.writer.answered()) << i;
    }
}

TEST(Block, WriterRefusesACreditWordForWhatItHasNotWritten) {
    BlockWriter writer;
    writer.attach(4096);
    EXPECT_EQ(writer.credit_word(8), Taken::kMalformed);
    writer.commit(writer.plan(16));
    EXPECT_EQ(writer.credit_word(kStep + 8), Taken::kMalformed);
    EXPECT_EQ(writer.credit_word(kStep - 4), Taken::kMalformed) << "no whole unit";
    EXPECT_EQ(writer.credit_word(kStep), Taken::kYes);
    EXPECT_TRUE(writer.empty());
    writer.commit(writer.plan(16));
    EXPECT_TRUE(writer.credit(kStep / 8)) << "sent before the word was written";
    EXPECT_FALSE(writer.empty());
    EXPECT_TRUE(writer.credit(2 * kStep / 8));
    EXPECT_TRUE(writer.empty());
    EXPECT_EQ(writer.credit_word(kStep), Taken::kYes) << "late, after a frame";
    EXPECT_TRUE(writer.empty());
}

// The reader's frames arrive, but the writer does not handle them while it goes on by the word.
TEST(Block, TheCreditWordDoesNotGetTooFarAheadOfTheFrames) {
    SimulatedBlock block(32768);
    uint32_t taken = 0;
    Word word;
    for (int i = 0;; ++i) {
        ASSERT_LT(i, 1000);
        ASSERT_TRUE(block.post(FrameKind::kActiveMessage, 0, payload_of(1, 8000), 0, 0));
        block.place_all();
        ASSERT_EQ(block.look(word), Look::kFrame);
        block.consume(word);
        (void)block.look(word);
        const Taken result = block.writer.credit_word(block.reader.freed());
        ASSERT_NE(result, Taken::kMalformed);
        if (result == Taken::kLater) break;
        taken = block.reader.freed();
    }
    EXPECT_LE(taken, kMostAhead);
    EXPECT_GT(taken, kMostAhead - 32768);
    EXPECT_TRUE(block.reader.frame_due()) << "long before";
    const uint32_t freed = block.reader.freed();
    ASSERT_TRUE(block.writer.credit(static_cast<uint16_t>(32000 / Word::kUnit)));
    EXPECT_FALSE(block.writer.empty()) << "that was old";
    EXPECT_EQ(block.writer.credit_word(freed), Taken::kYes) << "now it is near enough";
    EXPECT_TRUE(block.writer.empty());
}

// Counts past 2^32 bytes, with empty payloads.
TEST(Block, CountersMayWrapAround) {
    constexpr uint32_t kSize = kMaxBlock;
    std::vector<uint64_t> memory(kSize / 8);
    BlockWriter writer;
    BlockReader reader;
    writer.attach(kSize);
    reader.attach(reinterpret_cast<std::byte*>(memory.data()), kSize);
    Random random(1);
    Word word;
    uint64_t written = 0;
    for (unsigned frame = 0; written < uint64_t{9} << 30; ++frame) {
        const uint32_t length = static_cast<uint32_t>(random.between(50'000, Word::kMaxLength));
        const BlockWriter::Plan plan = writer.plan(length);
        ASSERT_TRUE(plan.fits) << frame;
        if (plan.wrap)
            memory[plan.wrap_at / 8] =
                Word(FrameKind::kWrap, 0, 0, 0, 0).in_round(writer.round()).raw();
        const Word tail =
            Word(FrameKind::kActiveMessage, 0, length, 0, 0).in_round(writer.round() + plan.wrap);
        memory[plan.end / 8 - 1] = plan.last ? tail.as_last().raw() : tail.raw();
        writer.commit(plan);
        written += plan.consumed;
        // The reader is one frame behind most of the time.
        if (frame % 64 == 0) continue;
        ASSERT_EQ(reader.look(word), Look::kFrame) << frame;
        reader.consume(word);
        if (frame % 64 == 63) {
            ASSERT_EQ(reader.look(word), Look::kFrame) << frame;
            reader.consume(word);
        }
        (void)reader.look(word);  // steps over a wrap
        ASSERT_TRUE(writer.credit(reader.freed_units()));
        ASSERT_EQ(writer.empty(), frame % 64 == 63) << frame;
    }
}

// Random words, most of which pass the first checks.
TEST(Block, NothingInABlockLeadsOutOfIt) {
    each_schedule(50'000, [](Random random) -> std::string {
        const auto size = 512 + kStep * static_cast<uint32_t>(random.below(8));
        std::vector<uint64_t> memory(size / 8);
        uint32_t round = 0;
        const auto random_word = [&]() -> uint64_t {
            if (random.chance(10)) return random();
            const auto kind = static_cast<FrameKind>(random.chance(20) ? random.below(8) : 0);
            const auto length = static_cast<uint32_t>(random.chance(80) ? random.below(64)
                                                                        : random.below(size + 64));
            const Word word = Word(kind, 1, length, 0, 0)
                                  .in_round(round + static_cast<uint32_t>(random.below(2)));
            return random.chance(10) ? word.as_last().raw() : word.raw();
        };
        const auto change = [&] {
            uint64_t& place = random.chance(50)
                                  ? memory[random.below(memory.size())]
                                  : memory[(random.below(size / kStep) + 1) * (kStep / 8) - 1];
            place = random_word();
        };
        for (uint64_t& word : memory) word = random_word();
        auto* base = reinterpret_cast<std::byte*>(memory.data());
        const std::byte* end = base + size;
        BlockReader reader;
        reader.attach(base, size);
        for (int i = 0; i < 200; ++i) {
            Word word;
            const auto* next = reinterpret_cast<const std::byte*>(reader.next());
            if (next < base || next + 8 > end) return "the next word is outside";
            if (reader.look(word) != Look::kFrame) {
                change();
                continue;
            }
            const std::byte* payload = reader.payload(word);
            if (payload < base || payload + padded(word.length()) + 8 > end)
                return "a payload is outside";
            if (word.kind() == FrameKind::kWrap) return "a wrap is shown";
            round += word.last();
            reader.consume(word);
            change();
        }
        return {};
    });
}

TEST(Block, MalformedWordsAreToldApart) {
    const auto look_at = [](uint64_t top) {
        std::vector<uint64_t> memory(512 / 8);
        memory.back() = top;
        BlockReader reader;
        reader.attach(reinterpret_cast<std::byte*>(memory.data()), 512);
        Word word;
        return reader.look(word);
    };
    const auto word = [](FrameKind kind, uint32_t length, uint32_t round = 0) {
        return Word(kind, 0, length, 0, 0).in_round(round).raw();
    };
    EXPECT_EQ(look_at(0), Look::kNothing);
    EXPECT_EQ(look_at(word(FrameKind::kActiveMessage, 0)), Look::kFrame);
    constexpr uint32_t kMost = 512 - kStep - 8;  // leaves a place for another word
    EXPECT_EQ(look_at(word(FrameKind::kActiveMessage, kMost)), Look::kFrame);
    EXPECT_EQ(look_at(word(FrameKind::kActiveMessage, kMost + 1)), Look::kMalformed);
    EXPECT_EQ(look_at(Word(word(FrameKind::kActiveMessage, 504)).as_last().raw()), Look::kFrame);
    EXPECT_EQ(look_at(Word(word(FrameKind::kActiveMessage, 505)).as_last().raw()),
              Look::kMalformed);
    EXPECT_EQ(look_at(word(FrameKind::kActiveMessage, 65535)), Look::kMalformed);
    EXPECT_EQ(look_at(word(FrameKind::kWrap, 0)), Look::kMalformed) << "it leads nowhere";
    EXPECT_EQ(look_at(word(FrameKind::kActiveMessage, 0, 1)), Look::kMalformed) << "another round";
    EXPECT_EQ(look_at(Word(word(FrameKind::kActiveMessage, 0)).as_last().raw()), Look::kFrame);
    EXPECT_EQ(look_at(word(static_cast<FrameKind>(5), 0)), Look::kMalformed);

    // A wrap may lie below the top.
    const auto look_below = [&](uint64_t below) {
        std::vector<uint64_t> memory(512 / 8);
        memory.back() = word(FrameKind::kActiveMessage, 0);
        memory[(512 - kStep) / 8 - 1] = below;
        BlockReader reader;
        reader.attach(reinterpret_cast<std::byte*>(memory.data()), 512);
        Word first;
        EXPECT_EQ(reader.look(first), Look::kFrame);
        reader.consume(first);
        return reader.look(first);
    };
    EXPECT_EQ(look_below(word(FrameKind::kWrap, 0)), Look::kNothing);
    EXPECT_EQ(look_below(word(FrameKind::kWrap, 8)), Look::kMalformed);
    EXPECT_EQ(look_below(word(FrameKind::kWrap, 0, 1)), Look::kMalformed);
    EXPECT_EQ(look_below(Word(word(FrameKind::kWrap, 0)).as_last().raw()), Look::kMalformed);
    EXPECT_EQ(look_below(word(FrameKind::kActiveMessage, kMost - kStep)), Look::kFrame);
    EXPECT_EQ(look_below(word(FrameKind::kActiveMessage, kMost - kStep + 1)), Look::kMalformed);
    EXPECT_EQ(look_at(word(FrameKind::kActiveMessage, 0) | uint64_t{1} << 60), Look::kMalformed);
}

}  // namespace block_test
}  // namespace tern
