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
// Both access the words in which a write may end, the last of each kStep bytes:
//
//   0        written by the reader, before it frees that place; and at first
//   a tail   written by the device once the reader has freed its place; read with acquire, so that
//            the payload below it is seen too. A device that promises the order of the bytes of a
//            write places the payload before the tail, and last the tail's last byte, which makes
//            the tail present.
//
// A write that the device placed once more after the reader has cleared its tail is of an old round
// when the reader comes there again, and is malformed. The reader checks every word against the
// block's bounds before it uses the word.
class BlockReader {
  public:
    enum class Look : uint8_t { kNothing, kFrame, kMalformed };

    // Starts on a block of `size` bytes at `base`, a multiple of kStep, all zeros.
    void attach(std::byte* base, uint32_t size) {
        base_ = base;
        half_ = size / 2;
        end_ = size;
        round_ = 0;
        freed_ = 0;
        reported_ = 0;
        framed_ = 0;
        written_ = 0;
    }

    // The address of the next tail word.
    const uint64_t* next() const { return word_below(end_); }

    // Looks for the next frame and steps over wraps. kFrame: `word` describes the frame.
    Look look(Word& word) {
        for (;;) {
            word = Word(__atomic_load_n(next(), __ATOMIC_ACQUIRE));
            if (!word.is_active_message(round_)) {
                if (!word.present()) return Look::kNothing;
                if (!word.well_formed(round_)) return Look::kMalformed;
                if (word.kind() == FrameKind::kWrap) {
                    // A wrap at the top would wrap to itself.
                    if (end_ == size() || word.length() != 0 || word.last())
                        return Look::kMalformed;
                    clear(end_, kStep);
                    wrap();
                    continue;
                }
            }
            // Only the last frame leaves no place for another word.
            const uint32_t space = in_steps(word.length());
            const bool fits = space < end_ || (space == end_ && word.last());
            return fits ? Look::kFrame : Look::kMalformed;
        }
    }

    // Whether the next word is that of a frame like this last one, which was not the block's last,
    // and fits the block. If so, `word` is it, and look() would return it.
    [[gnu::always_inline]] bool repeats(Word last, Word& word) const {
        const uint32_t end = end_;
        word = Word(__atomic_load_n(word_below(end), __ATOMIC_ACQUIRE));
        return word.is_like(last) && in_steps(word.length()) < end;
    }

    // The payload of the frame that look() has returned.
    const std::byte* payload(Word word) const {
        return base_ + (end_ - BlockWriter::body(word.length()));
    }

    // Clears and frees the place of the frame that look() has returned.
    void consume(Word word) {
        consume_usual(word);
        if (word.last()) wrap();
    }
    // Clears and frees the place of a frame that is not the last one.
    void consume_usual(Word word) {
        const uint32_t space = in_steps(word.length());
        const uint32_t end = end_;
        end_ = end - space;
        freed_ += space;
        clear(end, space);
    }

    // The cumulative count for the writer, modulo 2^16. What has been read and cleared was so
    // before a device can send the count.
    uint16_t freed_units() const { return static_cast<uint16_t>(freed() / Word::kUnit); }
    // Whether the credit must be sent even if no frame goes to the writer, as soon as there is
    // nothing else to do.
    bool due() const { return freed_ - reported_ >= half_ / 2; }
    // Whether it must be sent at once, or a stream would stop.
    bool pressing() const { return freed_ - reported_ >= half_; }
    // The count for the credit word. Orders the loads of payloads too: a doorbell need not.
    uint32_t freed() const {
        std::atomic_thread_fence(std::memory_order_release);
        return freed_;
    }
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
        sink(end_), sink(round_), sink(freed_), sink(reported_), sink(framed_), sink(written_);
    }

  private:
    const uint64_t* word_below(uint32_t offset) const {
        return reinterpret_cast<const uint64_t*>(base_ + offset - Word::kUnit);
    }
    uint32_t size() const { return 2 * half_; }
    // Of `bytes` bytes below `end`, the words in which a write may end.
    [[gnu::always_inline]] void clear(uint32_t end, uint32_t bytes) {
        clear_below(end);
        for (uint32_t cleared = kStep; cleared != bytes; cleared += kStep)
            [[unlikely]] clear_below(end - cleared);
    }
    [[gnu::always_inline]] void clear_below(uint32_t end) {
        __atomic_store_n(const_cast<uint64_t*>(word_below(end)), 0, __ATOMIC_RELAXED);
    }
    // Goes on at the high end.
    void wrap() {
        freed_ += end_;
        end_ = size();
        ++round_;
    }

    std::byte* base_ = nullptr;
    uint32_t half_ = 0;      // of the block's bytes
    uint32_t end_ = 0;       // where the next frame ends
    uint32_t round_ = 0;     // of the next word, since attach
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
    // look() for an active message behind one that look() has returned, if no cold frame came
    // between them, and the block is still there. Most frames of a stream have the same credit and
    // sequence, which need no second check.
    [[gnu::always_inline]] bool repeats(Word last, Word& word) const {
        TERN_ASSERT(block_ != Block::kNone);
        return reader_.repeats(last, word);
    }
    const std::byte* payload(Word word) const { return reader_.payload(word); }
    // The frame that look() has returned has been delivered.
    void consume(Word word) {
        reader_.consume(word);
        ++hot_;
    }
    void consume_usual(Word word) {
        reader_.consume_usual(word);
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
