// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tern/rendezvous/buffers.h"
#include "tern/rendezvous/chunk_source.h"

namespace tern {

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
    // The same for the beginning of a message, without flags.
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
