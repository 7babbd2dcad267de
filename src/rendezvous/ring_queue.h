// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/assert.h"
#include "rendezvous/incoming_transfer.h"

namespace tern {

// Incoming transfers that wait for a ring: those of one peer in the order of their requests, and
// the peers in turn, so that a peer that makes no progress holds up its own transfers only. Pure.
class RingQueue {
  public:
    bool empty() const { return peers_.empty(); }
    void push(Incoming& transfer) {
        TERN_ASSERT(!transfer.waits_for_ring);
        const auto peer = find(transfer);
        if (peer != peers_.end())
            peer->transfers.push_back(&transfer);
        else
            peers_.push_back({transfer.channel, {&transfer}});
        transfer.waits_for_ring = true;
    }
    // The first transfer of the first peer in turn for which `may(channel)` is true; null: none.
    template <class May>
    Incoming* next(May&& may) const {
        const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                       [&](const Peer& each) { return may(*each.channel); });
        return peer != peers_.end() ? peer->transfers.front() : nullptr;
    }
    // Removes the transfer that next() has returned, since it need not wait any more; its peer
    // comes last from now on.
    void pop(Incoming& transfer) {
        calls_ = 0;
        const auto peer = find(transfer);
        TERN_ASSERT(peer != peers_.end() && peer->transfers.front() == &transfer);
        transfer.waits_for_ring = false;
        peer->transfers.pop_front();
        Peer last = std::move(*peer);
        peers_.erase(peer);
        if (!last.transfers.empty()) peers_.push_back(std::move(last));
    }
    // Removes the transfer if it waits.
    void remove(Incoming& transfer) {
        if (!transfer.waits_for_ring) return;
        transfer.waits_for_ring = false;
        const auto peer = find(transfer);
        TERN_ASSERT(peer != peers_.end());
        // When a channel ends, its transfers end in about this order.
        auto& transfers = peer->transfers;
        transfers.erase(std::find(transfers.begin(), transfers.end(), &transfer));
        if (transfers.empty()) peers_.erase(peer);
    }
    // To be called once in each call of progress, after the transfers that got a ring have gone.
    // Whether transfers have waited in kPatience calls in a row without one of them getting a ring;
    // the count then begins anew.
    bool waits_too_long() {
        if (empty() || ++calls_ < kPatience) return false;
        calls_ = 0;
        return true;
    }
    // Removes the transfers for which `is(transfer)` is true, and returns their number.
    template <class Is>
    size_t erase_if(Is&& is) {
        size_t count = 0;
        for (Peer& peer : peers_)
            count += std::erase_if(peer.transfers, [&](Incoming* transfer) {
                if (!is(*transfer)) return false;
                transfer->waits_for_ring = false;
                return true;
            });
        std::erase_if(peers_, [](const Peer& peer) { return peer.transfers.empty(); });
        return count;
    }

    static constexpr uint32_t kPatience = 1 << 14;

  private:
    struct Peer {
        Channel* channel = nullptr;
        std::deque<Incoming*> transfers;  // never empty
    };

    std::deque<Peer>::iterator find(const Incoming& transfer) {
        return std::find_if(peers_.begin(), peers_.end(),
                            [&](const Peer& peer) { return peer.channel == transfer.channel; });
    }

    std::deque<Peer> peers_;  // in turn
    uint32_t calls_ = 0;      // of kPatience
};

}  // namespace tern
