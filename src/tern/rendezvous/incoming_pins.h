// SPDX-License-Identifier: BSD-3-Clause
// The pins of a receiver's buffer.
#pragma once

#include <cstdint>

#include "tern/rendezvous/incoming_transfer.h"
#include "tern/rendezvous/transfer_accounts.h"

namespace tern {

// Pins the buffers of incoming transfers, piece by piece from the beginning on, and makes placed
// parts of what is pinned.
class IncomingPins {
  public:
    IncomingPins(TransferMemory& memory, const TransferAccounts& accounts, const Decider& decider,
                 ProgressBudget& budget)
        : memory_(memory), accounts_(accounts), decider_(decider), budget_(budget) {}

    // Whether the next piece may be registered in this call of progress.
    bool may_pin(const Incoming& transfer) const {
        return budget_.may_register(next_piece(transfer));
    }
    // Takes the next piece if it is pinned. Only of buffers that are used again.
    bool find(Incoming& transfer);
    // Pins the next piece. False: it cannot be pinned.
    bool pin(Incoming& transfer, unsigned access);
    // Gives all pieces back.
    void release_all(Incoming& transfer);

    // The next part of the message: pinned, or else all the rest through the ring.
    Part next_part(Incoming& transfer);
    // The next part that is pinned; there must be one.
    Part pinned_part(Incoming& transfer) const;
    // The bytes of the first part, before they are pinned.
    uint64_t first_piece(const Incoming& transfer) const {
        return piece_at(transfer, 0, transfer.length);
    }

  private:
    uint64_t piece_at(const Incoming& transfer, uint64_t offset, uint64_t rest) const {
        return memory_.piece_of(transfer.decision.piece, transfer.decision.reused,
                                transfer.memory.data() + offset, rest, accounts_.running() <= 1);
    }
    uint64_t next_piece(const Incoming& transfer) const;
    static void make_room(Incoming& transfer);
    void take(Incoming& transfer, uint64_t piece, Pin* pin);

    TransferMemory& memory_;
    const TransferAccounts& accounts_;
    const Decider& decider_;
    ProgressBudget& budget_;
};

}  // namespace tern
