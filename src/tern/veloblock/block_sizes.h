// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tern/base/tunables.h"
#include "tern/veloblock/block_writer.h"

namespace tern {

// How large the blocks are that a receiver offers: for so many frames of the usual length, or what
// the peer asks for, within what is left of one budget. Pure. Control path.
class BlockSizes {
  public:
    struct Size {
        uint32_t block = 0;  // bytes
        uint32_t most = 0;   // of a block that could be offered instead
        uint32_t shift = 0;  // bytes between the block's end and that of its last page

        // Of the memory that has the block.
        uint32_t memory() const { return pages(block + shift); }
    };

    // Bytes of a first block, of the largest one, and of all; first blocks may be beyond that.
    BlockSizes(uint32_t first, uint32_t most, size_t all) : first_(first), most_(most), all_(all) {}

    // The next block of the channel with that index. `requested`: see requested(). `usual`: see
    // average(). `taken`: bytes of all blocks that there are.
    Size next(uint32_t index, uint32_t requested, uint32_t usual, size_t taken) const {
        // Blocks begin on pages. If they all ended there too, the words that a poll looks at would
        // compete for one set of the cache. So each peer's block ends a few lines earlier.
        const uint32_t shift = index % kBlockColours * kCacheLine;
        const uint32_t now = most_now(taken);
        const uint32_t most = std::min(now, pages(now) - shift);
        const uint32_t wanted = std::max({requested, first_, kBlockFrames * in_steps(usual)});
        const uint32_t size = std::min(wanted < kPage ? wanted : pages(wanted) - shift, most);
        return {.block = size, .most = most, .shift = shift};
    }

    // What a peer that asks for a block of so many bytes is given at most.
    uint32_t requested(uint32_t bytes) const { return std::min(bytes & ~(kStep - 1), most_); }
    // Takes a message of `length` bytes into a moving average.
    static void average(uint32_t& usual, uint32_t length) {
        usual -= usual / kAveragedMessages;
        usual += length / kAveragedMessages;
    }

  private:
    static constexpr uint32_t kCacheLine = 64;
    static constexpr uint32_t kPage = 4096;
    static_assert(kCacheLine % kStep == 0);

    static uint32_t pages(uint32_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }
    // Bytes of a block that is offered now, at most. A peer that asks for a larger one gets none
    // that is smaller, since its block has been dropped before.
    uint32_t most_now(size_t taken) const {
        const size_t left = all_ - std::min<size_t>(taken, all_);
        return std::max(first_,
                        static_cast<uint32_t>(std::min<size_t>(left & ~size_t{kStep - 1}, most_)));
    }

    uint32_t first_;
    uint32_t most_;
    size_t all_;
};

}  // namespace tern
