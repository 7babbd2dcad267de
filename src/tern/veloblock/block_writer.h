// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "common/assert.h"
#include "tern/veloblock/frame.h"

namespace tern {

// The sender's view of a block in the receiver's memory: where the next frame goes, and whether the
// receiver has freed enough (Veloblock, section 5.2.2 and 5.4). Frames fill the block from high to
// low addresses. A frame is one write of
//
//     | zero word | payload, padded to 8 | tail word |
//
// The tail word of the next frame replaces the zero word. A word of kind kWrap in that place sends
// the reader back to the high end. All offsets are from the block's low end.
//
// A credit is the cumulative count of what the reader has freed. Frames bring it in units modulo
// 2^16, in order; the credit word has it in bytes modulo 2^32, and may be ahead of the frames or
// behind them (kMostAhead).
class BlockWriter {
  public:
    static constexpr uint32_t kOverhead = 2 * Word::kUnit;  // zero word and tail

    // Where a frame goes. `wrap`: a tail of kind kWrap must be written at `wrap_at` first.
    struct Plan {
        bool fits = false;
        bool wrap = false;
        uint32_t wrap_at = 0;
        bool ends = false;  // a wrap replaces the zero word
        uint32_t at = 0;    // of the zero word; the write has the padded payload + kOverhead bytes
        uint32_t consumed = 0;  // bytes of credit

        // The word to write at `at`.
        Word below() const { return ends ? Word(FrameKind::kWrap, 0, 0, 0, 0) : Word(); }
    };

    // Starts on a new, empty block. `size` is a multiple of 8, kMinBlock .. kMaxBlock.
    void attach(uint32_t size) {
        size_ = size;
        tail_ = size - Word::kUnit;
        floor_ = 0;
        freed_ = 0;
        framed_ = 0;
        rest_ = 0;
    }
    // There is no block any more: nothing goes straight.
    void detach() { tail_ = 0; }

    // Whether a frame goes straight below the last one, without a wrap of any kind: most do.
    // `body`: bytes of its padded payload and its tail. If so, plan() gives the same result, at
    // more cost.
    bool straight(uint32_t body) const {
        const auto at = static_cast<int32_t>(tail_ - body);
        return at >= floor_ && at >= static_cast<int32_t>(body);
    }
    // Such a frame has been posted; its zero word went to straight_at(body).
    uint32_t straight_at(uint32_t body) const { return tail_ - body; }
    void commit_straight(uint32_t body) {
        tail_ -= body;
        TERN_ASSERT(used() <= size_ - Word::kUnit);
    }

    // The longest payload that a block of `size` can always take once its reader has consumed all
    // frames and sent the credit that is due. The reader keeps less than a quarter of the block
    // unreported (BlockReader::due), and a wrap wastes less than the length of the frame.
    static constexpr uint32_t max_payload(uint32_t size) {
        return (size / 8 * 3 - kOverhead) & ~(Word::kUnit - 1);
    }

    // Where a payload of `length` bytes would go now.
    Plan plan(uint32_t length) const {
        const uint32_t body = padded(length) + Word::kUnit;  // payload and tail
        const uint32_t used = this->used();
        Plan plan;
        if (tail_ >= body) {
            plan.at = tail_ - body;
            plan.consumed = body;
        } else {
            plan.wrap = true;
            plan.wrap_at = tail_;
            plan.at = size_ - Word::kUnit - body;
            plan.consumed = tail_ + Word::kUnit + body;
        }
        // The zero word must fall on free space as well.
        plan.fits = used + plan.consumed + Word::kUnit <= size_;
        // If another frame of this length would not fit below, and the rest is free, this frame
        // includes the wrap: frames of equal length then need no separate write for it.
        const uint32_t rest = plan.at + Word::kUnit;
        if (plan.at < body && used + plan.consumed + rest <= size_) {
            plan.ends = true;
            plan.consumed += rest;
        }
        return plan;
    }

    // The frame of `plan` has been posted.
    void commit(const Plan& plan) {
        const uint32_t used = this->used() + plan.consumed;
        tail_ = plan.ends ? size_ - Word::kUnit : plan.at;
        floor_ = static_cast<int32_t>(tail_ + used + Word::kUnit - size_);
        if (plan.ends) rest_ = plan.at + Word::kUnit;
        // The credit never permits more than the block.
        TERN_ASSERT(plan.fits && this->used() <= size_);
    }

    // Takes the reader's cumulative count of freed units from the next frame. False: the count
    // exceeds what was written, which breaks the protocol.
    bool credit(uint16_t units) {
        const auto step =
            static_cast<uint16_t>(units - static_cast<uint16_t>(framed_ / Word::kUnit));
        if (step == 0) return true;
        const uint32_t framed = framed_ + uint32_t{step} * Word::kUnit;
        if (!freed_to(framed)) return false;
        framed_ = framed;
        return true;
    }

    enum class Taken : uint8_t { kYes, kLater, kMalformed };
    // Takes the count of freed bytes from the credit word, which has changed. kLater: earlier
    // frames must be handled first.
    Taken credit_word(uint32_t freed) {
        // Behind the frames, that is, late? Then it looks far ahead.
        if (freed - framed_ > kMostAhead)
            return framed_ - freed <= kMostLate ? Taken::kYes : Taken::kLater;
        return freed % Word::kUnit == 0 && freed_to(freed) ? Taken::kYes : Taken::kMalformed;
    }

    uint32_t size() const { return size_; }
    bool empty() const { return used() == 0; }
    // Whether the reader's frames have brought credit for all frames that were written, which were
    // some. A wrap that the last frame includes is freed only when the reader looks for the next.
    bool answered() const {
        const uint32_t wrapped = tail_ == size_ - Word::kUnit ? rest_ : 0;
        return framed_ == freed_ && framed_ != 0 && used() <= wrapped;
    }
    // Bytes that the reader has freed, modulo 2^32, as far as is known.
    uint32_t freed() const { return freed_; }

  private:
    // Credit by frames may be ahead of the word by what they bring while the word is not read.
    static constexpr uint32_t kMostLate = 1u << 31;

    // False: the writer has not written as much.
    bool freed_to(uint32_t freed) {
        const auto step = static_cast<int32_t>(freed - freed_);
        if (step <= 0) return true;
        if (static_cast<uint32_t>(step) > used()) return false;
        freed_ = freed;
        floor_ -= step;
        return true;
    }

    // Bytes written and not freed.
    uint32_t used() const { return size_ - Word::kUnit - tail_ + static_cast<uint32_t>(floor_); }

    uint32_t size_ = 0;
    uint32_t tail_ = 0;  // where the next tail lands
    // The lowest place for a zero word that the reader's credit permits before the next wrap; less
    // than 0 if it permits more than the rest of the block. Frames that go straight do not move it.
    int32_t floor_ = 0;
    uint32_t freed_ = 0;   // bytes since attach, modulo 2^32
    uint32_t framed_ = 0;  // the last count that came by a frame
    uint32_t rest_ = 0;    // of freed_, what a frame's wrap brings, of the last one with a wrap
};

}  // namespace tern
