// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/assert.h"
#include "tern/veloblock/block_writer.h"
#include "tern/veloblock/frame.h"

namespace tern {

// The receiver's side of a block. The device writes frames into the block while the reader looks.
// Both access these words:
//
//   tail word   of the next frame: written by the device once the reader has freed its place; read
//               with acquire, so that the payload below it is seen too. Devices write in ascending
//               order: the payload before the tail, and last the tail's last byte, which makes the
//               tail present.
//   top word    zeroed by the reader before it frees that place; the reader writes no other word.
//
// The reader checks every word against the block's bounds before it uses the word.
class BlockReader {
  public:
    enum class Look : uint8_t { kNothing, kFrame, kMalformed };

    // Starts on a block of `size` bytes at `base`, 8-byte aligned, all zeros.
    void attach(std::byte* base, uint32_t size) {
        base_ = base;
        half_ = size / 2;
        tail_ = top_ = size - Word::kUnit;
        freed_ = 0;
        reported_ = 0;
        framed_ = 0;
        written_ = 0;
    }

    // The address of the next tail word.
    const uint64_t* next() const { return word_at(tail_); }

    // Looks for the next frame and steps over wraps. kFrame: `word` describes the frame.
    Look look(Word& word) {
        for (;;) {
            word = Word(__atomic_load_n(next(), __ATOMIC_ACQUIRE));
            if (!word.is_active_message()) {
                if (!word.present()) return Look::kNothing;
                if (!word.well_formed()) return Look::kMalformed;
            }
            if (word.is_active_message() || word.kind() != FrameKind::kWrap)
                return body_of(word) > tail_ ? Look::kMalformed : Look::kFrame;
            // A wrap at the top would wrap to itself.
            if (tail_ == top_ || word.length() != 0) return Look::kMalformed;
            free_to(0, tail_ + Word::kUnit);
            tail_ = top_;
        }
    }

    // Whether the next word is like this one of the last frame, and fits the block. If so, `word`
    // is it, and look() would return it; `body` is its body_of().
    [[gnu::always_inline]] bool repeats(Word last, Word& word, uint32_t& body) const {
        const uint32_t tail = tail_;
        word = Word(__atomic_load_n(word_at(tail), __ATOMIC_ACQUIRE));
        body = body_of(word);
        return word.is_like(last) && body <= tail;
    }

    // Bytes of a frame: its padded payload, and the word.
    static uint32_t body_of(Word word) { return padded(word.length()) + Word::kUnit; }
    // The payload of the frame that look() has returned.
    const std::byte* payload(Word word) const { return payload(body_of(word)); }
    const std::byte* payload(uint32_t body) const { return base_ + (tail_ - body + Word::kUnit); }

    // Frees the place of the frame that look() has returned.
    void consume(Word word) { consume(body_of(word)); }
    void consume(uint32_t body) {
        free_to(tail_, body);
        tail_ -= body;
    }

    // The cumulative count for the writer, modulo 2^16.
    uint16_t freed_units() const { return static_cast<uint16_t>(freed_ / Word::kUnit); }
    // Whether the credit must be sent even if no frame goes to the writer, as soon as there is
    // nothing else to do.
    bool due() const { return freed_ - reported_ >= half_ / 2; }
    // Whether it must be sent at once, or a stream would stop.
    bool pressing() const { return freed_ - reported_ >= half_; }
    // The count for the credit word.
    uint32_t freed() const { return freed_; }
    // Whether the count must go by a frame, because the credit word would be too far ahead of the
    // frames, or has this value already.
    bool frame_due() const { return freed_ - framed_ >= kFrameDue || freed_ == written_; }
    // Whether the credit word has been written since the last frame.
    bool ahead() const { return reported_ != framed_; }
    // The count has been sent: by a frame, or to the credit word.
    void framed() { reported_ = framed_ = freed_; }
    void written() { reported_ = written_ = freed_; }

    // For copies in tests: the block now lies here.
    void rebase(std::byte* base) { base_ = base; }
    template <class Sink>
    void save(Sink&& sink) const {
        sink(tail_), sink(freed_), sink(reported_), sink(framed_), sink(written_);
    }

  private:
    const uint64_t* word_at(uint32_t offset) const {
        return reinterpret_cast<const uint64_t*>(base_ + offset);
    }

    // Frees `bytes` bytes. If `tail` is the top word, where the writer's next round begins, that
    // word is zeroed first.
    void free_to(uint32_t tail, uint32_t bytes) {
        if (tail == top_)
            __atomic_store_n(reinterpret_cast<uint64_t*>(base_ + tail), 0, __ATOMIC_RELEASE);
        freed_ += bytes;
    }

    std::byte* base_ = nullptr;
    uint32_t top_ = 0;       // the place of the block's last word
    uint32_t half_ = 0;      // of its bytes
    uint32_t tail_ = 0;      // where the next tail lands
    uint32_t freed_ = 0;     // bytes since attach, modulo 2^32
    uint32_t reported_ = 0;  // the part of freed_ that was sent to the writer
    uint32_t framed_ = 0;    // the part of it that was sent by frames
    uint32_t written_ = 0;   // the value of the credit word
};

// The receiving half of one direction: restores the order in which hot and cold frames were sent.
// See SendPath.
class ReceivePath {
  public:
    using Look = BlockReader::Look;

    // kRevoked: this side has asked for the block; the sender has not released it yet.
    enum class Block : uint8_t { kNone, kOffered, kRevoked };

    // The next frame of the block. kNothing also while earlier cold frames are missing.
    Look look(Word& word) {
        if (block_ == Block::kNone) return Look::kNothing;
        const Look look = reader_.look(word);
        if (look != Look::kFrame) return look;
        const auto ahead = static_cast<int16_t>(static_cast<uint16_t>(word.sequence() - cold_));
        if (ahead > 0) return Look::kNothing;
        return ahead == 0 ? Look::kFrame : Look::kMalformed;
    }
    // The same for an active message behind one that look() has returned, if no cold frame came
    // between them, and the block is still there. Most frames of a stream have the same credit and
    // sequence, which need no second check.
    [[gnu::always_inline]] bool repeats(Word last, Word& word, uint32_t& body) const {
        TERN_ASSERT(block_ != Block::kNone);
        return reader_.repeats(last, word, body);
    }
    // `body`: see BlockReader.
    const std::byte* payload(Word word) const { return reader_.payload(word); }
    const std::byte* payload(uint32_t body) const { return reader_.payload(body); }
    // The frame that look() has returned has been delivered.
    void consume(Word word) { consume(BlockReader::body_of(word)); }
    void consume(uint32_t body) {
        reader_.consume(body);
        ++hot_;
    }

    // The number of undelivered frames in the block that precede a cold frame of that sequence.
    // They have arrived: the device completes a receive after the writes that were posted before
    // it. If fewer are found in the block, the cold frame is malformed.
    uint16_t before(uint16_t sequence) const { return static_cast<uint16_t>(sequence - hot_); }
    // Whether so many frames have been delivered, modulo 2^16. More may have been.
    bool has_taken(uint16_t hot, uint16_t cold) const {
        const auto taken = [](uint16_t now, uint16_t named) {
            return static_cast<int16_t>(static_cast<uint16_t>(now - named)) >= 0;
        };
        return taken(hot_, hot) && taken(cold_, cold);
    }
    // A cold frame has been delivered.
    void received_cold() { ++cold_; }

    void offer(std::byte* base, uint32_t size) {
        TERN_ASSERT(block_ == Block::kNone);
        reader_.attach(base, size);
        block_ = Block::kOffered;
    }
    void revoke() {
        TERN_ASSERT(block_ == Block::kOffered);
        block_ = Block::kRevoked;
    }
    // The sender's release frame, taken in order. False: there is no block to release.
    bool released() {
        if (block_ == Block::kNone) return false;
        block_ = Block::kNone;
        return true;
    }

    Block block() const { return block_; }
    // For the log: cold frames delivered, modulo 2^16.
    uint16_t cold() const { return cold_; }
    const uint64_t* next() const { return reader_.next(); }
    uint16_t credit() const { return reader_.freed_units(); }
    bool credit_due() const { return block_ != Block::kNone && reader_.due(); }
    // Of a block that is there.
    bool credit_pressing() const { return reader_.pressing(); }
    void credit_sent() { reader_.framed(); }
    // The credit word of the block's writer: what to write, whether that may be written now, and
    // that it has been written.
    uint32_t credit_word() const { return reader_.freed(); }
    bool credit_frame_due() const { return reader_.frame_due(); }
    void credit_written() { reader_.written(); }
    // Whether the writer may have got some credit only by its credit word.
    bool credit_ahead() const { return block_ != Block::kNone && reader_.ahead(); }

  private:
    Block block_ = Block::kNone;
    uint16_t hot_ = 0;   // frames delivered from blocks, modulo 2^16
    uint16_t cold_ = 0;  // cold frames delivered, modulo 2^16
    BlockReader reader_;
};

}  // namespace tern
