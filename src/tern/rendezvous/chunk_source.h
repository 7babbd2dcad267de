// SPDX-License-Identifier: BSD-3-Clause
// The bytes of a message: where they lie in the user's memory, and in which chunks the sender
// copies and writes them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tern/rendezvous/schedule.h"

namespace tern {

// The user's memory that a transfer reads or fills, in order.
class Buffers {
  public:
    static constexpr size_t kMost = 8;  // pieces

    struct Piece {
        std::byte* at = nullptr;
        size_t length = 0;
    };

    Buffers() = default;
    // At most kMost pieces.
    explicit Buffers(std::span<const Piece> pieces) {
        for (const Piece& piece : pieces) {
            if (piece.length == 0) continue;
            pieces_[count_++] = piece;
            length_ += piece.length;
        }
    }

    Buffers(std::byte* at, size_t length) : count_(length != 0), length_(length) {
        pieces_[0] = {.at = at, .length = length};
    }

    uint64_t length() const { return length_; }
    bool contiguous() const { return count_ == 1; }
    // Only if contiguous().
    std::byte* data() const { return pieces_[0].at; }

    // These move on by `bytes`, which must not exceed the rest. Data path.
    void read(std::byte* to, size_t bytes) {
        walk(bytes, [&](std::byte* piece, size_t part) {
            memcpy(to, piece, part);
            to += part;
        });
    }
    void write(const std::byte* from, size_t bytes) {
        walk(bytes, [&](std::byte* piece, size_t part) {
            memcpy(piece, from, part);
            from += part;
        });
    }
    void skip(uint64_t bytes) {
        walk(bytes, [](std::byte*, size_t) {});
    }

  private:
    template <class Each>
    void walk(uint64_t bytes, Each&& each) {
        while (bytes != 0) {
            const Piece& piece = pieces_[index_];
            const size_t part = static_cast<size_t>(std::min<uint64_t>(bytes, piece.length - at_));
            each(piece.at + at_, part);
            bytes -= part;
            at_ += part;
            if (at_ == piece.length) {
                ++index_;
                at_ = 0;
            }
        }
    }

    Piece pieces_[kMost];
    size_t count_ = 0;
    uint64_t length_ = 0;
    size_t index_ = 0;  // next piece
    size_t at_ = 0;     // next byte of that piece
};

// The value of a sub-block's flag when the sub-block has arrived. No earlier transfer has written
// this value to the slot, so only what reads leave in the slots must be zeroed (RingPool).
constexpr uint64_t flag_of(uint64_t generation, uint64_t index) {
    return generation << 24 | (index & 0xffffff);
}

// The beginning of a message (the paper's C_0), copied while the request to send is on its way: the
// first sub-blocks, in the slots from 0 on of staging memory. The receiver chooses the values of
// the flags, so the flags are still missing.
struct EarlyChunk {
    uint32_t blocks = 0;
    uint32_t first = 0;  // bytes in the first sub-block

    // The first chunk of a part of `length` bytes.
    static EarlyChunk of(uint64_t length, const ScheduleLimits& limits) {
        return {Schedule(length, limits).wanted(), SubBlocks::first(length)};
    }
    // Whether the chunk is the beginning of `part`, which is the first part of the message.
    bool fits(const Part& part) const {
        return blocks != 0 && !part.placed && first == SubBlocks::first(part.upto);
    }
};

// The sender's half of a transfer: what is to be written next, and where. Pure: it moves nothing.
//
// Sub-blocks are numbered from 0 through all staged parts. Number n lies in slot n modulo the
// number of slots, both in the receiver's ring and in the sender's staging memory. The sender is
// never more than the ring ahead of the acknowledgements. An acknowledgement frees slots of the
// staging memory too, because those sub-blocks need not be sent again. Between two chunks, when the
// writes are complete, staging memory may be taken away and other memory given later.
class ChunkSource {
  public:
    // One RDMA write.
    struct Chunk {
        uint64_t offset = 0;  // in the message
        uint64_t bytes = 0;   // of the message
        bool placed = false;
        uint64_t address = 0;  // placed: in the receiver's memory
        uint32_t rkey = 0;
        uint64_t index = 0;   // staged: number of the first sub-block
        uint32_t blocks = 0;  // sub-blocks
        uint32_t first = 0;   // bytes in the first sub-block
        uint32_t ready = 0;   // sub-blocks that are in staging memory already
    };

    static constexpr size_t kMostParts = 1024;  // announced and not completely posted

    // `slots` of the receiver's ring, and of the sender's own staging memory.
    ChunkSource(uint64_t length, uint32_t slots, uint32_t staging_slots,
                const ScheduleLimits& limits)
        : length_(length),
          slots_(std::max(1u, slots)),
          staging_slots_(std::max(1u, staging_slots)),
          limits_(limits) {}

    // Sets the slots of the staging memory that is lent; before anything is staged in it.
    void set_staging(uint32_t slots) { staging_slots_ = std::max(1u, slots); }

    // Staging memory holds `chunk`; to be called before the first part is added. If the first part
    // does not begin with the chunk, the chunk is ignored.
    void set_early_chunk(const EarlyChunk& chunk) { early_ = chunk; }
    // The staging memory with the early chunk has been taken away.
    void forget_early_chunk() { early_ = {}; }

    // The receiver has chosen how the next part is to be sent. False: the part is invalid.
    bool add(const Part& part) {
        if (part.upto <= parts_end_ || part.upto > length_ || parts_.size() >= kMostParts)
            return false;
        parts_.push(part);
        parts_end_ = part.upto;
        if (parts_.size() == 1) begin();
        return true;
    }
    // The receiver has taken `count` sub-blocks in all, modulo 2^32. False: the count is invalid.
    bool acknowledged(uint32_t count) {
        const uint32_t more = count - static_cast<uint32_t>(acked_);
        if (more > index_ - acked_) return false;
        acked_ += more;
        return true;
    }

    // Gets the next write that may be made now. False: none. `most`: bytes of a placed write.
    bool next(uint64_t most, Chunk& chunk) {
        if (parts_.empty()) return false;
        const Part& part = parts_.front();
        chunk.offset = at_;
        chunk.placed = part.placed;
        if (part.placed) {
            chunk.bytes = std::min(part.upto - at_, most);
            chunk.address = part.address + (at_ - part_begin_);
            chunk.rkey = part.rkey;
            return chunk.bytes != 0;
        }
        // Rather wait for a whole chunk than send many small ones; but the end of a ring cuts
        // chunks.
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
    // The write from next() has been posted.
    void posted(const Chunk& chunk) {
        at_ += chunk.bytes;
        if (chunk.placed) {
            any_placed_ = true;
        } else {
            index_ += schedule_.next(chunk.blocks);
        }
        if (at_ == parts_.front().upto) {
            parts_.pop();
            if (!parts_.empty()) begin();
        }
    }

    bool all_posted() const { return at_ == length_; }
    // Whether the transfer ends with a Finish, because the receiver cannot see placed writes.
    bool needs_finish() const { return any_placed_; }
    bool all_acknowledged() const { return acked_ == index_; }
    uint64_t staged() const { return index_; }  // sub-blocks so far
    uint64_t sent() const { return at_; }       // bytes
    uint64_t length() const { return length_; }
    // Whether the next bytes go through the ring.
    bool staging() const { return !parts_.empty() && !parts_.front().placed; }

  private:
    // The early chunk does not go beyond the first part.
    void begin() {
        part_begin_ = at_;
        const Part& part = parts_.front();
        if (!part.placed) schedule_ = Schedule(part.upto - at_, limits_);
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
    uint64_t parts_end_ = 0;   // where the last part ends
    uint64_t part_begin_ = 0;  // where the first of parts_ begins
    uint64_t at_ = 0;          // bytes posted
    Schedule schedule_;        // of the first of parts_, if it is staged
    uint64_t index_ = 0;       // sub-blocks posted
    uint64_t acked_ = 0;
    EarlyChunk early_;
    bool any_placed_ = false;
};

// Fills staging memory, a ring of slots that each hold a sub-block of the message and its flag.
// Data path.
class StagingMemory {
  public:
    StagingMemory(std::byte* data, uint32_t slots) : data_(data), slots_(slots) {}

    // Where the chunk begins in staging memory.
    std::byte* begin(const ChunkSource::Chunk& chunk) const {
        return data_ + chunk.index % slots_ * SubBlocks::kSlot + SubBlocks::kSubBlock - chunk.first;
    }
    // Copies the sub-blocks that are not there yet from `message`, which moves on by the chunk, and
    // sets all flags, for this generation of the receiver's ring. Returns the length of the chunk
    // with its flags.
    size_t fill(const ChunkSource::Chunk& chunk, uint64_t generation, Buffers& message) const {
        return walk(begin(chunk), chunk.first, chunk.blocks,
                    [&](std::byte* at, uint32_t bytes, uint32_t i) {
                        if (i < chunk.ready)
                            message.skip(bytes);
                        else
                            message.read(at, bytes);
                        const uint64_t flag = flag_of(generation, chunk.index + i);
                        memcpy(at + bytes, &flag, sizeof(flag));
                    });
    }
    // Only sets the flag of the chunk's first sub-block; returns where it is.
    const std::byte* set_flag(const ChunkSource::Chunk& chunk, uint64_t generation) const {
        std::byte* const at = begin(chunk) + chunk.first;
        const uint64_t flag = flag_of(generation, chunk.index);
        memcpy(at, &flag, sizeof(flag));
        return at;
    }
    // Fills in the beginning of a message, without flags.
    void fill(const EarlyChunk& chunk, Buffers& message) const {
        (void)walk(data_ + SubBlocks::kSubBlock - chunk.first, chunk.first, chunk.blocks,
                   [&](std::byte* at, uint32_t bytes, uint32_t) { message.read(at, bytes); });
    }

  private:
    // Calls `each(at, bytes, i)` for `blocks` sub-blocks in consecutive slots; the first sub-block
    // has `first` bytes. Returns how many bytes they take, including the last flag.
    template <class Each>
    static size_t walk(std::byte* begin, uint32_t first, uint32_t blocks, Each&& each) {
        std::byte* at = begin;
        uint32_t bytes = first;
        for (uint32_t i = 0; i < blocks; ++i) {
            each(at, bytes, i);
            at += bytes + SubBlocks::kFlag;
            bytes = SubBlocks::kSubBlock;
        }
        return static_cast<size_t>(at - begin);
    }

    std::byte* data_;
    uint32_t slots_;
};

}  // namespace tern
