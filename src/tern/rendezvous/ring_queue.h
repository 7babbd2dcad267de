// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "common/assert.h"
#include "tern/rendezvous/incoming_transfer.h"
#include "tern/rendezvous/peer_turns.h"

namespace tern {

// Incoming transfers that wait for a ring, in turn by peer. Pure.
class RingQueue {
  public:
    bool empty() const { return turns_.empty(); }
    void push(Incoming& transfer) {
        TERN_ASSERT(!transfer.waits_for_ring);
        turns_.push(*transfer.channel, &transfer);
        transfer.waits_for_ring = true;
    }
    // The first transfer of the first peer in turn for which `may(channel)` is true; null: none.
    template <class May>
    Incoming* next(May&& may) const {
        const auto* const peer = turns_.next(may);
        return peer != nullptr ? peer->waiting.front() : nullptr;
    }
    // Removes the transfer that next() has returned, since it need not wait any more; its peer
    // comes last from now on.
    void pop(Incoming& transfer) {
        transfer.waits_for_ring = false;
        [[maybe_unused]] const Incoming* const first = turns_.pop(*transfer.channel);
        TERN_ASSERT(first == &transfer);
    }
    // Removes the transfer if it waits.
    void remove(Incoming& transfer) {
        if (!transfer.waits_for_ring) return;
        transfer.waits_for_ring = false;
        turns_.remove(*transfer.channel, &transfer);
    }
    // Removes the transfers for which `is(transfer)` is true, and returns their number.
    template <class Is>
    size_t erase_if(Is&& is) {
        return turns_.erase_if([&](Incoming* transfer) {
            if (!is(*transfer)) return false;
            transfer->waits_for_ring = false;
            return true;
        });
    }

  private:
    PeerTurns<Incoming*> turns_;
};

}  // namespace tern
