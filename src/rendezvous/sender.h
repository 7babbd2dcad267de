// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "rendezvous/part.h"
#include "rendezvous/schedule.h"

namespace tern {

// What a sub-block's flag says once the sub-block is there: a number that has never been in this
// place of the ring before, so nothing needs to be zeroed.
constexpr uint64_t flag_of(uint64_t generation, uint64_t index) {
    return generation << 24 | (index & 0xffffff);
}

// The beginning of a message, copied before its receiver has asked for it, while the request to
// send travels (the paper's C_0): the first sub-blocks of what will be staged lie in the slots from
// 0 on of staging memory. Their flags are the receiver's to choose, and not there yet.
struct EarlyChunk {
    uint32_t blocks = 0;
    uint32_t first = 0;  // bytes in the first of them

    // The first chunk of a part of `length` bytes.
    static EarlyChunk of(uint64_t length, const ScheduleLimits& limits) {
        return {Schedule(length, limits).wanted(), SubBlocks::first(length)};
    }
    // It is the beginning of this, the first part of its message.
    bool fits(const Part& part) const {
        return blocks != 0 && !part.direct && first == SubBlocks::first(part.upto);
    }
};

// The sender's part of a transfer: what is to be written next, and where. Pure: it moves nothing.
//
// Sub-blocks are numbered from 0 through all staged parts; number n lies in slot n modulo the
// number of slots, in the receiver's ring as in the sender's own staging memory. The sender is
// never more than the ring ahead of what the receiver has acknowledged, and with that its staging
// memory is free again too, since what has been read at the other end need not be sent once more.
// Between two chunks it may be taken back, once the writes are complete, and other memory be given.
class Sender {
  public:
    // What one RDMA write carries.
    struct Chunk {
        uint64_t offset = 0;  // in the message
        uint64_t bytes = 0;   // of the message
        bool direct = false;
        uint64_t address = 0;  // direct: where to
        uint32_t rkey = 0;
        uint64_t index = 0;   // staged: number of its first sub-block
        uint32_t blocks = 0;  // sub-blocks
        uint32_t first = 0;   // bytes in the first of them
        uint32_t ready = 0;   // of the sub-blocks, as many are in staging memory already
    };

    static constexpr size_t kMostParts = 1024;  // told and not begun yet

    // `slots` of the receiver's ring, and of the sender's own staging memory.
    Sender(uint64_t length, uint32_t slots, uint32_t staging_slots, const ScheduleLimits& limits)
        : length_(length),
          slots_(std::max(1u, slots)),
          staging_slots_(std::max(1u, staging_slots)),
          limits_(limits) {}

    // The staging memory that there is in the end; before anything is staged.
    void set_staging(uint32_t slots) { staging_slots_ = std::max(1u, slots); }

    // Staging memory holds this; before the first part is told. If that is not what it begins with
    // it is as if nothing were there.
    void set_early_chunk(const EarlyChunk& chunk) { early_ = chunk; }
    // Staging memory, and what is in it, belongs to somebody else now.
    void forget_early_chunk() { early_ = {}; }

    // The receiver tells of the part after the last one. False if that makes no sense.
    bool add(const Part& part) {
        if (part.upto <= told_ || part.upto > length_ || parts_.size() >= kMostParts) return false;
        parts_.push(part);
        told_ = part.upto;
        if (parts_.size() == 1) begin();
        return true;
    }
    // The receiver has taken `count` sub-blocks in all, modulo 2^32. False if that makes no sense.
    bool acknowledged(uint32_t count) {
        const uint32_t more = count - static_cast<uint32_t>(acked_);
        if (more > index_ - acked_) return false;
        acked_ += more;
        return true;
    }

    // The next write, if there is one that may be made now: a direct one of at most `most` bytes.
    bool next(uint64_t most, Chunk& chunk) {
        if (parts_.empty()) return false;
        const Part& part = parts_.front();
        chunk.offset = at_;
        chunk.direct = part.direct;
        if (part.direct) {
            chunk.bytes = std::min(part.upto - at_, most);
            chunk.address = part.address + (at_ - part_begin_);
            chunk.rkey = part.rkey;
            return chunk.bytes != 0;
        }
        // Rather a whole chunk later than many small ones; but the ring's end cuts it.
        const uint32_t room =
            std::min(slots_, staging_slots_) - static_cast<uint32_t>(index_ - acked_);
        const uint32_t run =
            std::min(slots_ - static_cast<uint32_t>(index_ % slots_),
                     staging_slots_ - static_cast<uint32_t>(index_ % staging_slots_));
        const uint32_t wanted = std::min(schedule_.wanted(), run);
        if (wanted > room) return false;
        const uint64_t length = part.upto - part_begin_;
        const uint64_t first = SubBlocks::count(length) - schedule_.left();
        chunk.index = index_;
        chunk.blocks = wanted;
        chunk.first = SubBlocks::bytes(length, first);
        chunk.ready = index_ < early_.blocks
                          ? std::min(wanted, early_.blocks - static_cast<uint32_t>(index_))
                          : 0;
        chunk.bytes = SubBlocks::offset(length, first + wanted) - SubBlocks::offset(length, first);
        return true;
    }
    // The write that next() told of has been posted.
    void posted(const Chunk& chunk) {
        at_ += chunk.bytes;
        if (chunk.direct) {
            any_direct_ = true;
        } else {
            index_ += schedule_.next(chunk.blocks);
        }
        if (at_ == parts_.front().upto) {
            parts_.pop();
            if (!parts_.empty()) begin();
        }
    }

    bool all_posted() const { return at_ == length_; }
    // The receiver cannot see direct writes: it must be told that all is there.
    bool must_tell() const { return any_direct_; }
    // All that was staged has been taken.
    bool all_acknowledged() const { return acked_ == index_; }
    uint64_t staged() const { return index_; }  // sub-blocks so far
    uint64_t sent() const { return at_; }       // bytes
    uint64_t length() const { return length_; }
    // What is to be sent now goes through the ring.
    bool staging() const { return !parts_.empty() && !parts_.front().direct; }

  private:
    // Of the head nothing is left behind the first part.
    void begin() {
        part_begin_ = at_;
        const Part& part = parts_.front();
        if (!part.direct) schedule_ = Schedule(part.upto - at_, limits_);
        if (early_.fits(part))
            early_.blocks = static_cast<uint32_t>(
                std::min<uint64_t>({early_.blocks, staging_slots_, SubBlocks::count(part.upto)}));
        else
            early_ = {};
    }

    uint64_t length_;
    uint32_t slots_;
    uint32_t staging_slots_;
    ScheduleLimits limits_;
    PartQueue parts_;
    uint64_t told_ = 0;        // where the last part ends
    uint64_t part_begin_ = 0;  // where the first of parts_ begins
    uint64_t at_ = 0;          // bytes posted
    Schedule schedule_;        // of the first of parts_, if it is staged
    uint64_t index_ = 0;       // sub-blocks posted
    uint64_t acked_ = 0;
    EarlyChunk early_;
    bool any_direct_ = false;
};

}  // namespace tern
