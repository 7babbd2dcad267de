// SPDX-License-Identifier: BSD-3-Clause
// The writes of outgoing transfers.
#pragma once

#include <cstdint>

#include "tern/rendezvous/outgoing_pins.h"
#include "tern/rendezvous/outgoing_staging.h"
#include "tern/rendezvous/outgoing_transfer.h"

namespace tern {

// Posts one chunk at a time: through the receiver's ring, or to its final place.
class OutgoingWrites {
  public:
    static constexpr uint64_t kLongestWrite = 512 * 1024;  // bytes, of a placed write

    OutgoingWrites(Engine& engine, OutgoingPins& pins, OutgoingStaging& staging,
                   const Decider& decider, RendezvousCounters& counters, ProgressBudget& budget)
        : engine_(engine),
          pins_(pins),
          staging_(staging),
          decider_(decider),
          counters_(counters),
          budget_(budget) {}

    // Posts the chunk, or a shorter one. False: not now.
    bool post(Outgoing& transfer, ChunkSource::Chunk& chunk) {
        if (chunk.placed) return post_placed(transfer, chunk);
        return pins_.is_of_device(transfer) ? post_staged_in_place(transfer, chunk)
                                            : post_staged(transfer, chunk);
    }
    // A write, or the flush before staging memory is taken back, has succeeded.
    void completed(Outgoing::Write& write);

  private:
    bool post_staged(Outgoing& transfer, const ChunkSource::Chunk& chunk);
    bool post_staged_in_place(Outgoing& transfer, ChunkSource::Chunk& chunk);
    bool post_placed(Outgoing& transfer, ChunkSource::Chunk& chunk);
    bool post_in_place(Outgoing& transfer, const ChunkSource::Chunk& chunk);
    bool post_copied(Outgoing& transfer, ChunkSource::Chunk& chunk);
    void write(Outgoing& transfer, const ChunkSource::Chunk& chunk, const std::byte* from,
               uint32_t lkey, Outgoing::Write& write);

    Engine& engine_;
    OutgoingPins& pins_;
    OutgoingStaging& staging_;
    const Decider& decider_;
    RendezvousCounters& counters_;
    ProgressBudget& budget_;
};

}  // namespace tern
