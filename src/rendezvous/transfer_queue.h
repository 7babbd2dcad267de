// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

#include "base/assert.h"
#include "rendezvous/incoming_transfer.h"

namespace tern {

// Incoming transfers that wait: those of one peer in the order of their requests, and the peers in
// turn, so that a peer with many transfers, or with some that make no progress, holds up its own
// only. Pure.
class TransferQueue {
  public:
    bool empty() const { return peers_.empty(); }
    void push(Incoming& transfer) {
        const auto peer = find(transfer);
        if (peer != peers_.end())
            peer->transfers.push_back(&transfer);
        else
            peers_.push_back({transfer.channel, {&transfer}});
    }
    // The first transfer of the first peer in turn for which `may(channel)` is true; null: none.
    template <class May>
    Incoming* next(May&& may) const {
        const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                       [&](const Peer& each) { return may(*each.channel); });
        return peer != peers_.end() ? peer->transfers.front() : nullptr;
    }
    // The first transfer of the first peer in turn. The queue must not be empty.
    Incoming& front() const { return *peers_.front().transfers.front(); }
    // Removes the first transfer of a peer, since it need not wait any more; its peer comes last
    // from now on.
    void pop(Incoming& transfer) {
        const auto peer = find(transfer);
        TERN_ASSERT(peer != peers_.end() && peer->transfers.front() == &transfer);
        peer->transfers.pop_front();
        Peer last = std::move(*peer);
        peers_.erase(peer);
        if (!last.transfers.empty()) peers_.push_back(std::move(last));
    }
    // Removes the transfer if it waits.
    void remove(Incoming& transfer) {
        const auto peer = find(transfer);
        if (peer == peers_.end()) return;
        // When a channel ends, its transfers end in about this order.
        auto& transfers = peer->transfers;
        const auto at = std::find(transfers.begin(), transfers.end(), &transfer);
        if (at != transfers.end()) transfers.erase(at);
        if (transfers.empty()) peers_.erase(peer);
    }
    // Removes the transfers for which `is(transfer)` is true, and returns their number.
    template <class Is>
    size_t erase_if(Is&& is) {
        size_t count = 0;
        for (Peer& peer : peers_)
            count +=
                std::erase_if(peer.transfers, [&](Incoming* transfer) { return is(*transfer); });
        std::erase_if(peers_, [](const Peer& peer) { return peer.transfers.empty(); });
        return count;
    }

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
};

}  // namespace tern
