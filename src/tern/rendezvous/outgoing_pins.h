// SPDX-License-Identifier: BSD-3-Clause
// The pins of a sender's buffer.
#pragma once

#include <cstdint>

#include "tern/rendezvous/outgoing_transfer.h"
#include "tern/rendezvous/transfer_accounts.h"

namespace tern {

// Pins the buffers of outgoing transfers, piece by piece: a piece is pinned while the one before it
// is being sent.
class OutgoingPins {
  public:
    OutgoingPins(TransferMemory& memory, const TransferAccounts& accounts, const Decider& decider,
                 ProgressBudget& budget)
        : memory_(memory), accounts_(accounts), decider_(decider), budget_(budget) {}

    // The receiver is pinning the first part, which ends at `upto`. Meanwhile this side pins the
    // bytes of that part. False: there is no such part.
    bool prepare(Outgoing& transfer, uint64_t upto);
    // Whether the transfer sends memory of a device, for which it then holds a pin.
    bool is_of_device(Outgoing& transfer);
    // False: the chunk's bytes have to be pinned first, and not in this call of progress.
    bool may_send(Outgoing& transfer, const ChunkSource::Chunk& chunk);
    // Has the chunk's bytes pinned; may shorten the chunk. False: they are to be copied.
    bool pin(Outgoing& transfer, ChunkSource::Chunk& chunk);
    // Pins the next piece while the wire is busy with the one before, and the receiver pins too.
    unsigned pin_ahead(Outgoing& transfer);

  private:
    void choose_source(Outgoing& transfer, const ChunkSource::Chunk& chunk);
    uint64_t piece_at(const Outgoing& transfer, uint64_t offset) const;
    bool may_pin(const Outgoing& transfer, uint64_t offset);
    bool find_piece(Outgoing& transfer, uint64_t offset);
    void pin_piece(Outgoing& transfer, uint64_t offset);

    TransferMemory& memory_;
    const TransferAccounts& accounts_;
    const Decider& decider_;
    ProgressBudget& budget_;
};

}  // namespace tern
