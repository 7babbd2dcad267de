// SPDX-License-Identifier: BSD-3-Clause
// The rings of an interface's incoming transfers.
#pragma once

#include <cstdint>

#include "tern/engine/channel.h"
#include "tern/rendezvous/incoming_transfer.h"
#include "tern/rendezvous/rendezvous_owner.h"
#include "tern/rendezvous/ring_pool.h"
#include "tern/rendezvous/ring_queue.h"
#include "tern/rendezvous/transfer_memory.h"

namespace tern {

// Lends rings to incoming transfers: to the peers in turn, and for each in the order of the
// requests, so that no transfer waits for ever.
class IncomingRings {
  public:
    IncomingRings(ibv_pd* pd, const TransferMemory& memory, const RendezvousSettings& settings,
                  ProgressBudget& budget);

    // Whether the transfer has a ring, now or from before. `may_lend`: it is its turn.
    bool lend(Incoming& transfer, bool may_lend) {
        return transfer.ring.slots != 0 ||
               (may_lend && pool_.lend(transfer.ring, budget_, transfer.channel->rings));
    }
    // Whether there will soon be a ring for the transfer, which is being made.
    bool will_come(const Incoming& transfer, bool may_lend) const {
        return may_lend && pool_.may_grow() && pool_.serves(transfer.channel->rings);
    }
    // Not even a small ring could be registered: there is none for a while.
    bool cannot_register() const { return pool_.cannot_register(); }
    // The ring, if any, comes back. No work request uses it any more.
    void give_back(const Incoming& transfer) {
        if (transfer.ring.slots != 0) pool_.give_back(transfer.ring, transfer.channel->rings);
    }

    // The peer will write to the transfer's ring, if it has one: its flags get a new generation.
    void prepare_for_writes(Incoming& transfer);
    // This side's device reads into the transfer's ring.
    void read_into(const Incoming& transfer) { pool_.read_into(transfer.ring); }

    // Transfers that wait for a ring.
    RingQueue& queue() { return queue_; }
    bool any_waits() const { return !queue_.empty(); }
    // The next of them that may have a ring; null: none waits, or all have their share.
    Incoming* next() const {
        if (queue_.empty()) return nullptr;
        return queue_.next([this](const Channel& channel) { return pool_.serves(channel.rings); });
    }

    uint64_t registered_bytes() const { return pool_.registered_bytes(); }

  private:
    RingPool pool_;
    RingQueue queue_;
    ProgressBudget& budget_;
    uint64_t generation_;  // of the flags in the ring lent last
};

}  // namespace tern
