// SPDX-License-Identifier: BSD-3-Clause
// A block with its writer, its reader and their credit: all orders of events, for few frames in a
// small block, whose writes become visible in any order; and that each rule is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "exhaustive.h"
#include "schedules.h"
#include "tern/veloblock/block_writer.h"
#include "tern/veloblock/receive_path.h"

namespace tern {
namespace block_model_test {

// A rule that is left out.
enum class Without : uint8_t {
    kNothing,
    kClear,          // the reader leaves a frame's tail as it is
    kClearAll,       // it clears the tail, and no other place of one
    kClearFirst,     // it clears what it has read after the credit for it
    kRound,          // it does not look at rounds
    kOrder,          // the tail is placed before the payload
    kOrderInWord,    // the tail's last byte is placed first
    kConsumedFirst,  // the reader reports a frame's place before it has taken the payload
    kWrap,           // the writer goes to the top without telling
    kCreditWhenDue,  // credit is sent only when it is pressing
    kOneWord,        // the credit word is written while another write of it is under way
};

struct Shape {
    uint32_t steps = 6;  // of the block
    uint32_t frames = 5;
    uint32_t spare = 2;  // messages to the writer, which have credit too
    // Words of one of the two payloads: two steps. The other is empty.
    uint32_t longer = kStep / Word::kUnit + 1;
    bool repeats = false;  // the device may place a write again that has been read

    uint32_t size() const { return steps * kStep; }
};
constexpr Shape kSmall;
// The longest payload, which fits beside what is not due to be reported, and no more.
constexpr Shape kLarge{.steps = 11, .frames = 4, .spare = 1, .longer = 4 * kStep / Word::kUnit - 1};
constexpr Shape kLargeAndLong{
    .steps = 11, .frames = 6, .spare = 1, .longer = 4 * kStep / Word::kUnit - 1};
constexpr Shape kRepeated{.steps = 3, .frames = 5, .spare = 0, .longer = 0, .repeats = true};

struct Case {
    Without without = Without::kNothing;
    const char* name = "";
    Shape shape;
    const char* wrong = "";
};

struct Move {
    enum class Kind : uint8_t {
        kChoose,    // the program wants to send a frame of `words` words, and no other
        kSend,      // a frame of `words` words
        kPlace,     // the next piece of the write with that index appears in the block
        kRepeat,    // a write appears that has been read
        kLook,      // the reader takes a frame, if there is one
        kClear,     // it clears what it has read
        kPayFrame,  // the reader sends its credit by a frame
        kPayWord,   // or to the credit word
        kArrive,    // the one of these with that index arrives at the writer
        kHandle,    // the writer handles a frame that has arrived
        kTakeWord,  // or takes the credit word
    };
    Kind kind;
    uint32_t words = 0;

    std::string text() const {
        constexpr const char* kNames[] = {"choose", "send",   "place",          "repeat",
                                          "look",   "clear",  "pay by a frame", "pay word",
                                          "arrive", "handle", "take word"};
        return kNames[static_cast<size_t>(kind)] + (words != 0 ? " " + std::to_string(words) : "");
    }
};

class BlockModel {
  public:
    static constexpr uint32_t kMostWords = 88;

    BlockModel(const Shape& shape, Without without)
        : without_(without), shape_(shape), spare_(shape.spare) {
        writer_.attach(shape.size());
        reader_.attach(base(), shape.size());
    }
    BlockModel(const BlockModel& other)
        : without_(other.without_),
          shape_(other.shape_),
          writer_(other.writer_),
          reader_(other.reader_),
          wire_(other.wire_),
          read_(other.read_),
          rounds_(other.rounds_),
          repeated_(other.repeated_),
          deaf_(other.deaf_),
          unclear_(other.unclear_),
          credits_(other.credits_),
          frames_(other.frames_),
          word_(other.word_),
          word_seen_(other.word_seen_),
          spare_(other.spare_),
          chosen_(other.chosen_),
          next_(other.next_),
          sent_(other.sent_),
          received_(other.received_),
          wrong_(other.wrong_) {
        memcpy(memory_, other.memory_, sizeof memory_);
        reader_.rebase(base());
    }
    BlockModel& operator=(const BlockModel&) = delete;

    std::vector<Move> moves() const {
        using Kind = Move::Kind;
        std::vector<Move> all;
        if (sent_ < shape_.frames && !chosen_)
            for (const uint32_t words : {0u, shape_.longer}) all.push_back({Kind::kChoose, words});
        if (chosen_ && fits(next_)) all.push_back({Kind::kSend, next_});
        for (uint32_t i = 0; i < wire_.size(); ++i) all.push_back({Kind::kPlace, i});
        if (can_repeat()) all.push_back({Kind::kRepeat});
        BlockModel looked(*this);
        Word word;
        const auto look = looked.look_at(word);
        if (!deaf_ && (look != BlockReader::Look::kNothing || looked.digest() != digest()))
            all.push_back({Kind::kLook});
        if (!unclear_.empty()) all.push_back({Kind::kClear});
        if (spare_ != 0) all.push_back({Kind::kPayFrame});
        const bool due = without_ == Without::kCreditWhenDue ? reader_.pressing() : reader_.due();
        const bool waits = words_under_way() != 0 && without_ != Without::kOneWord;
        if (due) {
            if (spare_ == 0 && (!waits || reader_.pressing())) all.push_back({Kind::kPayFrame});
            if (!reader_.frame_due() && !waits) all.push_back({Kind::kPayWord});
        }
        // A frame comes behind the writes before it, and writes come in any order.
        for (uint32_t i = 0; i < credits_.size(); ++i) {
            if (credits_[i].frame && i != 0) break;
            all.push_back({Kind::kArrive, i});
            if (credits_[i].frame) break;
        }
        if (!frames_.empty()) all.push_back({Kind::kHandle});
        if (word_ != word_seen_) all.push_back({Kind::kTakeWord});
        return all;
    }

    void apply(const Move& move) {
        switch (move.kind) {
            case Move::Kind::kChoose:
                chosen_ = true;
                next_ = move.words;
                return;
            case Move::Kind::kSend:
                chosen_ = false;
                return send(move.words);
            case Move::Kind::kPlace:
                return place(move.words);
            case Move::Kind::kRepeat:
                repeated_ = true;
                memcpy(base() + read_.back().at, &read_.back().tail, sizeof read_.back().tail);
                return;
            case Move::Kind::kLook:
                return look();
            case Move::Kind::kClear:
                for (const uint32_t at : unclear_) memory_[at / Word::kUnit] = 0;
                return unclear_.clear();
            case Move::Kind::kPayFrame:
                // A message to the writer, or a frame for the credit alone.
                if (spare_ != 0) --spare_;
                credits_.push_back({true, static_cast<uint16_t>(reported() / Word::kUnit)});
                return reader_.framed();
            case Move::Kind::kPayWord:
                credits_.push_back({false, reported()});
                return reader_.written();
            case Move::Kind::kArrive: {
                const Credit credit = credits_[move.words];
                credits_.erase(credits_.begin() + move.words);
                if (credit.frame)
                    frames_.push_back(static_cast<uint16_t>(credit.count));
                else
                    word_ = credit.count;
                return;
            }
            case Move::Kind::kHandle: {
                const uint16_t units = frames_.front();
                frames_.pop_front();
                if (!writer_.credit(units)) broken("good credit is refused");
                return;
            }
            case Move::Kind::kTakeWord: {
                const auto taken = writer_.credit_word(word_);
                if (taken != BlockWriter::Taken::kYes) broken("a good credit word is refused");
                word_seen_ = word_;
                return;
            }
        }
    }

    void expect_end() {
        if (repeated_) return;
        if (sent_ != shape_.frames) broken("the writer waits for ever");
        if (received_ != sent_) broken("the reader waits for ever");
    }
    const std::string& wrong() const { return wrong_; }

    Digest digest() const {
        Digester sink;
        for (const uint64_t word : memory_) sink(word);
        uint32_t words[sizeof(BlockWriter) / sizeof(uint32_t)];
        static_assert(sizeof words == sizeof(BlockWriter));
        memcpy(words, &writer_, sizeof words);
        for (const uint32_t word : words) sink(word);
        reader_.save(sink);
        sink(wire_.size());
        for (const Write& write : wire_) sink(write.at), sink(write.tail), sink(write.left);
        sink(read_.size()), sink(repeated_);
        sink(credits_.size());
        for (const Credit& credit : credits_) sink(credit.frame), sink(credit.count);
        sink(frames_.size());
        for (const uint16_t units : frames_) sink(units);
        sink(word_), sink(word_seen_), sink(spare_), sink(chosen_ ? 1 + next_ : 0), sink(sent_),
            sink(received_);
        sink(deaf_), sink(unclear_.size());
        for (const uint32_t at : unclear_) sink(at);
        return sink.digest();
    }

  private:
    // Its pieces: the payload, and the halves of the tail.
    struct Write {
        uint32_t at = 0;  // of the tail
        uint32_t words = 0;
        uint64_t tail = 0;
        uint32_t number = 0;  // of the frame
        uint32_t left = 3;    // pieces
    };
    struct Credit {
        bool frame = false;
        uint32_t count = 0;
    };

    // Of the credit word. The reader sees the completion when a write has arrived.
    size_t words_under_way() const {
        return static_cast<size_t>(
            std::ranges::count_if(credits_, [](const Credit& each) { return !each.frame; }));
    }
    // Until its place is used again.
    bool can_repeat() const {
        if (!shape_.repeats || repeated_ || read_.empty()) return false;
        const uint32_t at = read_.back().at;
        return memory_[at / Word::kUnit] == 0 &&
               std::ranges::none_of(wire_, [at](const Write& each) { return each.at == at; });
    }

    std::byte* base() { return reinterpret_cast<std::byte*>(memory_); }
    void broken(const char* rule) {
        if (wrong_.empty()) wrong_ = rule;
    }
    static Word tail_of(uint32_t number, uint32_t words) {
        return {FrameKind::kActiveMessage, number % 32, words * Word::kUnit, 0, 0};
    }
    // Payload that looks like the tail of a frame that nobody sends.
    static uint64_t payload_of(uint32_t number) {
        return Word(FrameKind::kActiveMessage, 31 - number % 32, 0, 0, 0).raw();
    }

    BlockWriter::Plan plan(uint32_t words) const { return writer_.plan(words * Word::kUnit); }
    bool fits(uint32_t words) const { return plan(words).fits; }

    void send(uint32_t words) {
        const BlockWriter::Plan plan = this->plan(words);
        const Word wrap = Word(FrameKind::kWrap, 0, 0, 0, 0).in_round(writer_.round());
        const bool tells = without_ != Without::kWrap;
        if (plan.wrap && tells)
            wire_.push_back({.at = plan.wrap_at, .tail = wrap.raw(), .number = sent_});
        const Word tail = tail_of(sent_, words).in_round(writer_.round() + plan.wrap);
        wire_.push_back({.at = plan.end - Word::kUnit,
                         .words = words,
                         .tail = plan.last && tells ? tail.as_last().raw() : tail.raw(),
                         .number = sent_});
        writer_.commit(plan);
        ++sent_;
    }

    void place(uint32_t index) {
        Write& write = wire_[index];
        uint32_t piece = 3 - write.left--;
        if (without_ == Without::kOrder) piece = (piece + 1) % 3;
        if (without_ == Without::kOrderInWord && piece != 0) piece = 3 - piece;
        if (piece == 0) {
            for (uint32_t i = 1; i <= write.words; ++i)
                memory_[write.at / Word::kUnit - i] = payload_of(write.number);
        } else {
            const uint32_t at = write.at + 4 * (piece - 1);
            const auto half = static_cast<uint32_t>(write.tail >> 32 * (piece - 1));
            memcpy(base() + at, &half, sizeof half);
        }
        if (write.left != 0) return;
        wire_.erase(wire_.begin() + index);
    }

    uint32_t reported() const {
        BlockModel looked(*this);
        Word word;
        if (without_ == Without::kConsumedFirst &&
            looked.reader_.look(word) == BlockReader::Look::kFrame)
            looked.reader_.consume(word);
        return looked.reader_.freed();
    }

    void look() {
        Word word;
        const auto look = look_at(word);
        if (look == BlockReader::Look::kMalformed) {
            deaf_ = true;
            if (!repeated_) broken("a good frame is refused");
            return;
        }
        if (look != BlockReader::Look::kFrame) return;
        const uint32_t words = word.length() / Word::kUnit;
        if (received_ == sent_ || word.id() != received_ % 32)
            return broken("a frame that nobody has sent");
        for (uint32_t i = 0; i < words; ++i) {
            uint64_t payload = 0;
            memcpy(&payload, reader_.payload(word) + i * Word::kUnit, sizeof payload);
            if (payload != payload_of(received_)) return broken("a frame has other bytes");
        }
        const auto at =
            static_cast<uint32_t>(reinterpret_cast<const std::byte*>(reader_.next()) - base());
        uint64_t before[kMostWords];
        memcpy(before, memory_, sizeof before);
        reader_.consume(word);
        rounds_ += word.last();
        if (without_ == Without::kClear || without_ == Without::kClearAll ||
            without_ == Without::kClearFirst) {
            for (uint32_t i = 0; i < kMostWords; ++i) {
                if (before[i] != memory_[i] && without_ == Without::kClearFirst)
                    unclear_.push_back(i * Word::kUnit);
                if (without_ != Without::kClearAll || i * Word::kUnit != at) memory_[i] = before[i];
            }
        }
        read_.push_back({.at = at, .words = words, .tail = word.raw(), .number = received_});
        ++received_;
    }
    // Without a check of rounds, the word has the one that the reader wants.
    BlockReader::Look look_at(Word& word) {
        if (without_ == Without::kRound && *reader_.next() >> 63 != 0) {
            constexpr uint64_t kRound = uint64_t{Word::kRounds - 1} << 56;
            uint64_t& at =
                memory_[(reinterpret_cast<const std::byte*>(reader_.next()) - base()) / 8];
            at = Word(at & ~kRound).in_round(rounds_).raw();
        }
        const auto look = reader_.look(word);
        return look;
    }

    const Without without_;
    const Shape shape_;
    uint64_t memory_[kMostWords] = {};
    BlockWriter writer_;
    BlockReader reader_;
    std::deque<Write> wire_;
    std::deque<Write> read_;
    uint32_t rounds_ = 0;            // that the reader has begun; there is no wrap where it matters
    bool repeated_ = false;          // a write has appeared again
    bool deaf_ = false;              // the reader has found something malformed
    std::vector<uint32_t> unclear_;  // places that are freed and not cleared
    std::deque<Credit> credits_;     // on their way to the writer
    std::deque<uint16_t> frames_;    // have arrived, not handled
    uint32_t word_ = 0;
    uint32_t word_seen_ = 0;
    uint32_t spare_;
    bool chosen_ = false;
    uint32_t next_ = 0;
    uint32_t sent_ = 0;
    uint32_t received_ = 0;
    std::string wrong_;
};

TEST(BlockModel, EveryOrderOfEvents) {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP()
        << "takes minutes with the sanitizer, which sees the same code in random schedules";
#endif
    for (const Shape& shape : {kSmall, kLarge, kRepeated}) {
        Exhaustive<BlockModel> search;
        EXPECT_TRUE(search.run(BlockModel(shape, Without::kNothing))) << search.report();
        if (number_from_environment("TERN_VERBOSE", 0) != 0)
            printf("%lu states, %lu ends\n", search.states(), search.ends());
    }
}

constexpr const char* kNobodys = "a frame that nobody has sent";
constexpr const char* kBytes = "a frame has other bytes";
constexpr const char* kRefused = "a good frame is refused";
constexpr const char* kWriterWaits = "the writer waits for ever";

const Case kCases[] = {
    {Without::kClear, "Clear", kSmall, kRefused},
    {Without::kClearAll, "ClearAll", kSmall, kRefused},
    {Without::kClearFirst, "ClearFirst", kSmall, kRefused},
    {Without::kRound, "Round", kRepeated, kNobodys},
    {Without::kOrder, "Order", kSmall, kBytes},
    {Without::kOrderInWord, "OrderInWord", kSmall, kNobodys},
    {Without::kConsumedFirst, "ConsumedFirst", kSmall, kRefused},
    {Without::kWrap, "Wrap", kSmall, kRefused},
    {Without::kCreditWhenDue, "CreditWhenDue", kLargeAndLong, kWriterWaits},
    {Without::kOneWord, "OneWord", kLargeAndLong, kWriterWaits},
};

class BlockRule : public testing::TestWithParam<Case> {};

TEST_P(BlockRule, IsMissedWhenItIsLeftOut) {
    Exhaustive<BlockModel> search;
    EXPECT_FALSE(search.run(BlockModel(GetParam().shape, GetParam().without)));
    EXPECT_TRUE(search.report().starts_with(GetParam().wrong)) << search.report();
}

INSTANTIATE_TEST_SUITE_P(All, BlockRule, testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace block_model_test
}  // namespace tern
