// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/assert.h"
#include "tern/veloblock/frame.h"

namespace tern {

// The sender's view of a block in the receiver's memory: where the next frame goes, and whether the
// receiver has freed enough (Veloblock, section 5.2.2 and 5.4). Frames fill the block from high to
// low addresses. A frame is one write of
//
//     | payload, padded to 8 | tail word |
//
// that ends where the frame before begins, both rounded to kStep. No two writes touch the same
// byte before the reader has cleared it, so they may become visible in any order. The paper's zero
// word below the payload, which the next tail replaces, would need an order between writes.
//
// A tail that is `last` sends the reader back to the high end. If that was not known when the frame
// was written, a word of kind kWrap does, in the place of the next tail. All offsets are from the
// block's low end.
//
// A credit is the cumulative count of what the reader has freed. Frames bring it in units modulo
// 2^16, in order; the credit word has it in bytes modulo 2^32, and may be ahead of the frames or
// behind them (kMostAhead).
class BlockWriter {
  public:
    static constexpr uint32_t kOverhead = Word::kUnit;  // the tail

    // Where a frame goes. `wrap`: a word of kind kWrap must be written at `wrap_at` first.
    struct Plan {
        bool fits = false;
        bool wrap = false;
        uint32_t wrap_at = 0;
        bool last = false;      // the tail says so
        uint32_t end = 0;       // where the write ends: payload and tail, body() bytes
        uint32_t space = 0;     // bytes below `end` that the frame takes
        uint32_t consumed = 0;  // bytes of credit
    };

    // Bytes of a frame's write.
    template <std::unsigned_integral T>
    static constexpr T body(T length) {
        return padded(length) + Word::kUnit;
    }

    // Starts on a new, clear block. `size` is a multiple of kStep, kMinBlock .. kMaxBlock.
    void attach(uint32_t size) {
        size_ = end_ = size;
        round_ = 0;
        floor_ = 0;
        freed_ = 0;
        framed_ = 0;
    }
    // There is no block any more: nothing goes straight.
    void detach() { end_ = 0; }

    // Whether a frame goes straight below the last one, without a wrap of any kind: most do.
    // `space`: in_steps() of its payload. If so, plan() gives the same result, at more cost.
    bool straight(uint32_t space) const {
        const auto begin = static_cast<int32_t>(end_ - space);
        return begin >= floor_ && begin >= static_cast<int32_t>(space);
    }
    // Where the write of such a frame ends.
    uint32_t straight_end() const { return end_; }
    // It has been posted.
    void commit_straight(uint32_t space) {
        end_ -= space;
        TERN_ASSERT(used() <= size_);
    }

    // The longest payload that a block of `size` can always take once its reader has consumed all
    // frames and sent the credit that is due. The reader keeps less than a quarter of the block
    // unreported (BlockReader::due), and a wrap wastes less than the frame takes.
    static constexpr uint32_t max_payload(uint32_t size) {
        return (size / 8 * 3 & ~(kStep - 1)) - kOverhead;
    }

    // Where a payload of `length` bytes would go now.
    Plan plan(uint32_t length) const {
        const uint32_t used = this->used();
        Plan plan;
        plan.space = in_steps(length);
        plan.end = end_;
        plan.consumed = plan.space;
        if (end_ < plan.space) {
            plan.wrap = true;
            plan.wrap_at = end_ - Word::kUnit;
            plan.end = size_;
            plan.consumed += end_;
        }
        plan.fits = used + plan.consumed <= size_;
        // If another frame of this length would not fit below, and the rest is free, the tail
        // includes the wrap: frames of equal length then need no separate write for it.
        const uint32_t rest = plan.end - plan.space;
        if (rest < plan.space && used + plan.consumed + rest <= size_) {
            plan.last = true;
            plan.consumed += rest;
        }
        return plan;
    }

    // The frame of `plan` has been posted.
    void commit(const Plan& plan) {
        const uint32_t used = this->used() + plan.consumed;
        end_ = plan.last ? size_ : plan.end - plan.space;
        round_ += uint32_t{plan.wrap} + uint32_t{plan.last};
        floor_ = static_cast<int32_t>(end_ + used - size_);
        // The credit never permits more than the block.
        TERN_ASSERT(plan.fits && this->used() <= size_);
    }

    // Where a frame goes whose payload grows until it is written: straight below the last one.
    struct Growing {
        uint32_t most = 0;  // bytes of payload
        uint32_t end = 0;   // where the write ends
        bool last = false;  // the tail says so
    };
    // For at most `most` bytes of payload, a multiple of 8. If not even one more of that size would
    // fit below, and the rest is free, the frame is the last one.
    Growing plan_growing(uint32_t most) const {
        Growing plan{.most = 0, .end = end_, .last = false};
        uint32_t room = 0;
        if (end_ < 2 * in_steps(most) && floor_ <= 0) {
            plan.last = end_ != 0;
            room = end_;
        } else if (const int32_t low = std::max(floor_, static_cast<int32_t>(kStep));
                   static_cast<int32_t>(end_) > low) {
            room = end_ - static_cast<uint32_t>(low);
        }
        room &= ~(kStep - 1);
        plan.most = room == 0 ? 0 : std::min(most, room - kOverhead);
        return plan;
    }
    // The frame counts as posted, with the most bytes: the reader may free it before settle().
    void commit_growing(const Growing& plan) {
        if (!plan.last) return settle(plan, plan.most);
        floor_ += static_cast<int32_t>(size_);
        end_ = size_;
        ++round_;
        TERN_ASSERT(used() <= size_);
    }
    // It has been written, with `length` bytes of payload. Nothing else was meanwhile.
    void settle(const Growing& plan, uint32_t length) {
        if (plan.last) return;
        end_ = plan.end - in_steps(length);
        TERN_ASSERT(used() <= size_ && end_ != 0);
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
    // Of the next word, unless it wraps: that of the frame is then one more.
    uint32_t round() const { return round_; }
    bool empty() const { return used() == 0; }
    // Whether the reader's frames have brought credit for all frames that were written, which were
    // some.
    bool answered() const { return framed_ == freed_ && framed_ != 0 && empty(); }
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
    uint32_t used() const { return size_ - end_ + static_cast<uint32_t>(floor_); }

    uint32_t size_ = 0;
    // Where the next frame ends: at least kStep. A frame that leaves no place below it is the last.
    uint32_t end_ = 0;
    // How low a frame may begin that the reader's credit permits before the next wrap; less than 0
    // if it permits more than the rest of the block. Frames that go straight do not move it.
    int32_t floor_ = 0;
    uint32_t freed_ = 0;   // bytes since attach, modulo 2^32
    uint32_t framed_ = 0;  // the last count that came by a frame
    uint32_t round_ = 0;   // since attach
};

}  // namespace tern
