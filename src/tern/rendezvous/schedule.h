// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tern/base/tunables.h"

namespace tern {

// A part of a message, and the way it takes to the receiver's memory. Parts follow each other
// without gaps; the receiver chooses the way of each.
struct Part {
    uint64_t upto = 0;     // end of the part in the message, in bytes
    uint64_t address = 0;  // placed: the receiver's memory for its first byte
    uint32_t rkey = 0;
    bool placed = false;  // written to its final place; otherwise staged in the ring
};

// A first-in, first-out queue. Up to two parts, enough for most messages, need no allocation.
class PartQueue {
  public:
    bool empty() const { return size() == 0; }
    size_t size() const { return last_ - first_; }
    const Part& front() const { return at(first_); }
    void push(const Part& part) {
        if (last_ < kFew)
            few_[last_] = part;
        else
            more_.push_back(part);
        ++last_;
    }
    void pop() { ++first_; }

  private:
    static constexpr size_t kFew = 2;

    const Part& at(size_t index) const { return index < kFew ? few_[index] : more_[index - kFew]; }

    Part few_[kFew];
    std::vector<Part> more_;
    size_t first_ = 0;
    size_t last_ = 0;
};

// The layout of a staged segment in a ring of slots. Each slot has a sub-block of data and the flag
// that shows its arrival. The first sub-block is the short one; like the others it ends right
// before its flag, so flags are always in the same place.
struct SubBlocks {
    static constexpr uint32_t kSubBlock = 4096;
    static constexpr uint32_t kFlag = 8;
    static constexpr uint32_t kSlot = kSubBlock + kFlag;

    static constexpr uint64_t count(uint64_t length) {
        return length / kSubBlock + (length % kSubBlock != 0);
    }
    // Bytes in the first sub-block; 0 only if there is none.
    static constexpr uint32_t first(uint64_t length) {
        return length == 0 ? 0 : static_cast<uint32_t>((length - 1) % kSubBlock) + 1;
    }
    // Bytes in sub-block `index` of a segment of `length` bytes.
    static constexpr uint32_t bytes(uint64_t length, uint64_t index) {
        return index == 0 ? first(length) : kSubBlock;
    }
    // Where sub-block `index` begins in the segment; for index == count(length) it is the end.
    static constexpr uint64_t offset(uint64_t length, uint64_t index) {
        return index == 0 ? 0 : first(length) + (index - 1) * kSubBlock;
    }
    // Where the data of sub-block `index` begins in the slot.
    static constexpr uint32_t in_slot(uint64_t length, uint64_t index) {
        return kSubBlock - bytes(length, index);
    }
};

// Sizes are in sub-blocks unless a name or comment says bytes.
struct ScheduleLimits {
    uint32_t first_bytes = kTunables.rndv_chunk_first;  // C_0
    double q = kTunables.rndv_chunk_growth;             // ratio of each chunk to the one before
    uint32_t most = 64;                                 // longest chunk
    uint32_t least = 2;  // a last chunk shorter than this joins the one before

    // For a ring of `slots` that `buffers` chunks share.
    static constexpr uint32_t most_of(uint32_t slots, uint32_t buffers = kTunables.rndv_buffers) {
        return std::max(1u, slots / std::max(1u, buffers));
    }
};

// The chunks of a staged segment: about C_0 * q^i each (equation 5), in whole sub-blocks. Chunks
// grow because a copy is faster than the wire: each chunk is copied while the one before is being
// sent, so O(log L) gaps remain. A q below 1 is taken as 1, because chunks would shrink to nothing.
// Data path.
class Schedule {
  public:
    Schedule() = default;  // of no bytes
    Schedule(uint64_t length, const ScheduleLimits& limits)
        : left_(SubBlocks::count(length)),
          q_(limits.q > 1 ? limits.q : 1),
          most_(std::max(1u, limits.most)),
          least_(limits.least) {
        const uint64_t first = limits.first_bytes / SubBlocks::kSubBlock;
        size_ = std::clamp(static_cast<double>(first), 1.0, static_cast<double>(most_));
    }

    // The next chunk if there is room: 0 only if all is done, never more than `most`.
    uint32_t wanted() const {
        const uint32_t size = static_cast<uint32_t>(size_);
        if (left_ <= size) return static_cast<uint32_t>(left_);
        if (left_ <= most_ && left_ - size < least_) return static_cast<uint32_t>(left_);
        return size;
    }

    // Takes the next chunk, at most `room`: 0 only if there is no room or nothing left. To wait
    // rather than send a short chunk, compare wanted() first; `most` is room enough for any chunk.
    uint32_t next(uint32_t room) {
        const uint32_t chunk = std::min(wanted(), room);
        if (chunk == 0) return 0;
        left_ -= chunk;
        size_ = std::min(size_ * q_, static_cast<double>(most_));
        return chunk;
    }

    uint64_t left() const { return left_; }
    bool done() const { return left_ == 0; }

  private:
    uint64_t left_ = 0;
    double size_ = 1;  // of the next chunk, not rounded
    double q_ = 1;
    uint32_t most_ = 1;
    uint32_t least_ = 0;
};

}  // namespace tern
