// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tern/rendezvous/chunk_source.h"

namespace tern {

// The receiver's half of a transfer: which bytes have arrived, and where they belong. Pure, except
// that it reads the flags in the ring, which only the device writes.
class RingReader {
  public:
    struct Block {
        uint64_t offset = 0;  // in the message
        uint32_t bytes = 0;
        uint32_t at = 0;  // in the ring
    };

    // `notified`: writes carry immediate data, and flags are ignored. `ack_after`: sub-blocks.
    RingReader(uint64_t length, uint32_t slots, uint64_t generation, bool notified,
               uint32_t ack_after)
        : length_(length),
          slots_(slots),
          generation_(generation),
          notified_(notified),
          ack_after_(std::max(1u, ack_after)) {}

    // Adds the next part, whose way this side has chosen.
    void add(const Part& part) {
        parts_.push(part);
        if (part.placed) {
            any_placed_ = true;
        } else {
            staged_ += SubBlocks::count(part.upto - parts_end_);
        }
        parts_end_ = part.upto;
        skip_placed();
    }

    // Gets the next sub-block. False: it has not arrived. Data path.
    bool next(const std::byte* ring, Block& block) const {
        if (index_ == staged_) return false;
        const auto slot = static_cast<uint32_t>(index_ % slots_) * SubBlocks::kSlot;
        if (notified_) {
            if (index_ == arrived_) return false;
        } else {
            // Acquire: the data, written before the flag, is read after it.
            if (__atomic_load_n(flag(ring), __ATOMIC_ACQUIRE) != flag_of(generation_, index_))
                return false;
        }
        const uint64_t length = parts_.front().upto - begin_;
        const uint64_t number = index_ - first_;
        block.offset = begin_ + SubBlocks::offset(length, number);
        block.bytes = SubBlocks::bytes(length, number);
        block.at = slot + SubBlocks::in_slot(length, number);
        return true;
    }
    // The next sub-block's flag.
    const uint64_t* flag(const std::byte* ring) const {
        return reinterpret_cast<const uint64_t*>(ring + index_ % slots_ * SubBlocks::kSlot +
                                                 SubBlocks::kSubBlock);
    }
    // The sub-block of next() has been copied.
    void taken() {
        ++index_;
        if (index_ - first_ == SubBlocks::count(parts_.front().upto - begin_)) {
            begin_ = parts_.front().upto;
            first_ = index_;
            parts_.pop();
            skip_placed();
        }
    }

    // A write of `blocks` sub-blocks has been notified. False: their number is wrong.
    bool arrived(uint32_t blocks) {
        const uint64_t most = withdrawn_ ? withdrawn_at_ : staged_;
        if (!notified_ || blocks > most - arrived_ || arrived_ + blocks - index_ > slots_)
            return false;
        arrived_ += blocks;
        return true;
    }
    // The sender has written everything. False: that cannot be.
    bool finished() {
        if (!any_placed_ || done_ || parts_end_ != length_) return false;
        done_ = true;
        return true;
    }

    // The sender writes no more; `blocks`: sub-blocks that it has written. False: that cannot be.
    bool withdrawn(uint32_t blocks) {
        const uint32_t more = blocks - static_cast<uint32_t>(arrived_);
        if (withdrawn_ || (notified_ && more > staged_ - arrived_)) return false;
        withdrawn_ = true;
        withdrawn_at_ = arrived_ + more;
        return true;
    }
    bool is_withdrawn() const { return withdrawn_; }
    // Whether nothing more is to come. Flags have arrived before the frame that said so.
    bool withdrawn_completely() const {
        return withdrawn_ && (!notified_ || arrived_ == withdrawn_at_);
    }

    // Whether to acknowledge now, so that the sender can go on. At the latest this is so when no
    // more staged sub-blocks are expected for now, because the sender may need its staging memory
    // for a placed part. The last acknowledgement is sent in any case, with the end of the
    // transfer.
    bool ack_due() const {
        return ack_owed() && (index_ - acked_ >= ack_after_ || index_ == staged_);
    }
    // Whether there is something to acknowledge. If nothing arrives, the sender's staging memory
    // may be smaller than the ring, and full.
    bool ack_owed() const { return index_ != acked_ && !complete() && !withdrawn_; }
    void acked() { acked_ = index_; }
    // An acknowledgement is sent because nothing arrives. The second time, the sender's staging
    // memory is taken to hold only as many sub-blocks as are owed.
    void waited() {
        if (++waits_ > 1) ack_after_ = std::min(ack_after_, static_cast<uint32_t>(index_ - acked_));
    }

    bool complete() const {
        return parts_end_ == length_ && index_ == staged_ && (done_ || !any_placed_);
    }
    uint64_t parts_end() const { return parts_end_; }
    uint64_t length() const { return length_; }
    bool notified() const { return notified_; }
    // About how many writes at a time may be notified.
    int32_t notifications() const {
        if (!notified_) return 0;
        return static_cast<int32_t>(std::min<uint64_t>(slots_, SubBlocks::count(length_)));
    }
    bool polls_memory() const { return !notified_ && index_ != staged_; }
    // Sub-blocks copied, modulo 2^32.
    uint32_t count() const { return static_cast<uint32_t>(index_); }

  private:
    void skip_placed() {
        while (!parts_.empty() && parts_.front().placed) {
            begin_ = parts_.front().upto;
            parts_.pop();
        }
    }

    uint64_t length_;
    uint32_t slots_;
    uint64_t generation_;
    bool notified_;
    uint32_t ack_after_;
    PartQueue parts_;         // not copied completely; the first is staged
    uint64_t parts_end_ = 0;  // where the last part ends
    uint64_t begin_ = 0;      // where the first part begins, in the message
    uint64_t first_ = 0;      // number of its first sub-block
    uint64_t staged_ = 0;     // sub-blocks in all parts so far
    uint64_t index_ = 0;      // sub-blocks copied
    uint64_t arrived_ = 0;    // sub-blocks notified
    uint64_t acked_ = 0;
    uint64_t withdrawn_at_ = 0;  // sub-blocks notified in the end
    bool withdrawn_ = false;
    bool any_placed_ = false;
    bool done_ = false;
    uint32_t waits_ = 0;
};

}  // namespace tern
