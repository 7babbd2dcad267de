// SPDX-License-Identifier: BSD-3-Clause
// A block with its writer, its reader and their credit: all orders of events, for few frames in a
// block of few words; and that each rule is needed.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "exhaustive.h"
#include "schedules.h"
#include "tern/veloblock/block_writer.h"
#include "tern/veloblock/receive_path.h"

namespace tern {
namespace block_model_test {

// A rule that is left out.
enum class Without : uint8_t {
    kNothing,
    kZeroWord,       // the writer leaves what is in the place of the next tail
    kZeroedTop,      // the reader leaves the top word as it is
    kOrder,          // the tail is placed before the payload
    kOrderInWord,    // the tail's last byte is placed first
    kRoomForZero,    // the writer fills the block to its last word
    kConsumedFirst,  // the reader reports a frame's place before it has taken the payload
    kWrap,           // the writer goes to the top without telling
    kCreditWhenDue,  // credit is sent only when it is pressing
};

struct Shape {
    uint32_t words = 9;  // of the block
    uint32_t frames = 6;
    uint32_t spare = 2;  // messages to the writer, which have credit too

    uint32_t size() const { return words * Word::kUnit; }
    // Of the longest payload that a block of this size always takes in the end.
    uint32_t most() const { return BlockWriter::max_payload(size()) / Word::kUnit; }
};
constexpr Shape kSmall;
// A payload fits into half of this block, but not always beside what is not reported.
constexpr Shape kLarge{.words = 16, .frames = 5, .spare = 1};

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
        kPlace,     // the next half of a word appears in the block
        kLook,      // the reader takes a frame, if there is one
        kPayFrame,  // the reader sends its credit by a frame
        kPayWord,   // or to the credit word
        kArrive,    // the next of these arrives at the writer
        kHandle,    // the writer handles a frame that has arrived
        kTakeWord,  // or takes the credit word
    };
    Kind kind;
    uint32_t words = 0;

    std::string text() const {
        constexpr const char* kNames[] = {"choose", "send",           "place",
                                          "look",   "pay by a frame", "pay word",
                                          "arrive", "handle",         "take word"};
        return kNames[static_cast<size_t>(kind)] + (words != 0 ? " " + std::to_string(words) : "");
    }
};

class BlockModel {
  public:
    static constexpr uint32_t kMostWords = 16;

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
          credits_(other.credits_),
          frames_(other.frames_),
          word_(other.word_),
          word_seen_(other.word_seen_),
          spare_(other.spare_),
          chosen_(other.chosen_),
          next_(other.next_),
          written_(other.written_),
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
            for (const uint32_t words : {0u, shape_.most()}) all.push_back({Kind::kChoose, words});
        if (chosen_ && fits(next_)) all.push_back({Kind::kSend, next_});
        if (!wire_.empty()) all.push_back({Kind::kPlace});
        BlockModel looked(*this);
        Word word;
        const auto look = looked.reader_.look(word);
        if (look != BlockReader::Look::kNothing || looked.digest() != digest())
            all.push_back({Kind::kLook});
        if (spare_ != 0) all.push_back({Kind::kPayFrame});
        const bool due = without_ == Without::kCreditWhenDue ? reader_.pressing() : reader_.due();
        if (due) {
            if (spare_ == 0) all.push_back({Kind::kPayFrame});
            if (!reader_.frame_due()) all.push_back({Kind::kPayWord});
        }
        if (!credits_.empty()) all.push_back({Kind::kArrive});
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
                return place();
            case Move::Kind::kLook:
                return look();
            case Move::Kind::kPayFrame:
                // A message to the writer, or a frame for the credit alone.
                if (spare_ != 0) --spare_;
                credits_.push_back({true, static_cast<uint16_t>(reported() / Word::kUnit)});
                return reader_.framed();
            case Move::Kind::kPayWord:
                credits_.push_back({false, reported()});
                return reader_.written();
            case Move::Kind::kArrive: {
                const Credit credit = credits_.front();
                credits_.pop_front();
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
        for (const Half& half : wire_) sink(half.at), sink(half.value);
        sink(credits_.size());
        for (const Credit& credit : credits_) sink(credit.frame), sink(credit.count);
        sink(frames_.size());
        for (const uint16_t units : frames_) sink(units);
        sink(word_), sink(word_seen_), sink(spare_), sink(chosen_ ? 1 + next_ : 0), sink(written_),
            sink(sent_), sink(received_);
        return sink.digest();
    }

  private:
    struct Half {
        uint32_t at = 0;  // in the block, in halves of words
        uint32_t value = 0;
    };
    struct Credit {
        bool frame = false;
        uint32_t count = 0;
    };

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

    BlockWriter::Plan plan(uint32_t words) const {
        BlockWriter::Plan plan = writer_.plan(words * Word::kUnit);
        if (without_ == Without::kRoomForZero && !plan.fits)
            plan.fits = plan.consumed <= shape_.size() - (written_ - writer_.freed());
        return plan;
    }
    bool fits(uint32_t words) const { return plan(words).fits; }

    void put(uint32_t at, uint64_t word) {
        Half low{at / 4, static_cast<uint32_t>(word)};
        Half high{at / 4 + 1, static_cast<uint32_t>(word >> 32)};
        if (without_ == Without::kOrderInWord) std::swap(low, high);
        wire_.push_back(low);
        wire_.push_back(high);
    }

    void send(uint32_t words) {
        const BlockWriter::Plan plan = this->plan(words);
        const Word wrap(FrameKind::kWrap, 0, 0, 0, 0);
        if (plan.wrap && without_ != Without::kWrap) put(plan.wrap_at, wrap.raw());
        if (plan.ends && without_ != Without::kWrap)
            put(plan.at, plan.below().raw());
        else if (without_ != Without::kZeroWord)
            put(plan.at, 0);
        const uint32_t tail = plan.at + (1 + words) * Word::kUnit;
        if (without_ == Without::kOrder) put(tail, tail_of(sent_, words).raw());
        for (uint32_t i = 1; i <= words; ++i) put(plan.at + i * Word::kUnit, payload_of(sent_));
        if (without_ != Without::kOrder) put(tail, tail_of(sent_, words).raw());
        writer_.commit(plan);
        written_ += plan.consumed;
        ++sent_;
    }

    void place() {
        const Half half = wire_.front();
        wire_.pop_front();
        memcpy(base() + size_t{half.at} * 4, &half.value, sizeof half.value);
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
        const uint64_t top = memory_[shape_.words - 1];
        const auto look = reader_.look(word);
        if (look == BlockReader::Look::kMalformed) return broken("a good frame is refused");
        if (look == BlockReader::Look::kFrame) {
            const uint32_t words = word.length() / Word::kUnit;
            if (received_ == sent_ || word.raw() != tail_of(received_, words).raw())
                return broken("a frame that nobody has sent");
            for (uint32_t i = 0; i < words; ++i) {
                uint64_t payload = 0;
                memcpy(&payload, reader_.payload(word) + i * Word::kUnit, sizeof payload);
                if (payload != payload_of(received_)) return broken("a frame has other bytes");
            }
            reader_.consume(word);
            ++received_;
        }
        if (without_ == Without::kZeroedTop) memory_[shape_.words - 1] = top;
    }

    const Without without_;
    const Shape shape_;
    uint64_t memory_[kMostWords] = {};
    BlockWriter writer_;
    BlockReader reader_;
    std::deque<Half> wire_;
    std::deque<Credit> credits_;   // on their way to the writer
    std::deque<uint16_t> frames_;  // have arrived, not handled
    uint32_t word_ = 0;
    uint32_t word_seen_ = 0;
    uint32_t spare_;
    bool chosen_ = false;
    uint32_t next_ = 0;
    uint32_t written_ = 0;  // bytes of credit used
    uint32_t sent_ = 0;
    uint32_t received_ = 0;
    std::string wrong_;
};

TEST(BlockModel, EveryOrderOfEvents) {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP()
        << "takes minutes with the sanitizer, which sees the same code in random schedules";
#endif
    for (const Shape& shape : {kSmall, kLarge}) {
        Exhaustive<BlockModel> search;
        EXPECT_TRUE(search.run(BlockModel(shape, Without::kNothing))) << search.report();
        if (number_from_environment("TERN_VERBOSE", 0) != 0)
            printf("%lu states, %lu ends\n", search.states(), search.ends());
    }
}

constexpr const char* kNobodys = "a frame that nobody has sent";
constexpr const char* kBytes = "a frame has other bytes";
constexpr const char* kReaderWaits = "the reader waits for ever";
constexpr const char* kWriterWaits = "the writer waits for ever";

const Case kCases[] = {
    {Without::kZeroWord, "ZeroWord", kSmall, kNobodys},
    {Without::kZeroedTop, "ZeroedTop", kSmall, kNobodys},
    {Without::kOrder, "Order", kSmall, kBytes},
    {Without::kOrderInWord, "OrderInWord", kSmall, kNobodys},
    {Without::kRoomForZero, "RoomForZero", kSmall, kReaderWaits},
    {Without::kConsumedFirst, "ConsumedFirst", kSmall, kReaderWaits},
    {Without::kWrap, "Wrap", kSmall, kReaderWaits},
    {Without::kCreditWhenDue, "CreditWhenDue", kLarge, kWriterWaits},
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
