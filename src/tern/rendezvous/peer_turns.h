// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

#include "common/assert.h"

namespace tern {

struct Channel;

// What waits, of several peers: that of one peer in order, and the peers in turn, so that a peer
// with much to wait, or with what makes no progress, holds up its own only. Pure.
template <class T>
class PeerTurns {
  public:
    struct Peer {
        Channel* channel = nullptr;
        std::deque<T> waiting;  // never empty
    };

    bool empty() const { return peers_.empty(); }
    size_t count(const Channel& channel) const {
        const auto peer = find(peers_, channel);
        return peer != peers_.end() ? peer->waiting.size() : 0;
    }
    void push(Channel& channel, const T& what) {
        const auto peer = find(peers_, channel);
        if (peer != peers_.end())
            peer->waiting.push_back(what);
        else
            peers_.push_back({&channel, {what}});
    }
    // The first peer in turn for which `may(channel)` is true; null: none.
    template <class May>
    const Peer* next(May&& may) const {
        const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                       [&](const Peer& each) { return may(*each.channel); });
        return peer != peers_.end() ? &*peer : nullptr;
    }
    // What comes next of the first peer in turn. Something must wait.
    const T& front() const { return peers_.front().waiting.front(); }
    // Removes and returns the first of a peer, of which something waits; the peer comes last from
    // now on.
    T pop(const Channel& channel) {
        const auto peer = find(peers_, channel);
        TERN_ASSERT(peer != peers_.end());
        const T first = peer->waiting.front();
        peer->waiting.pop_front();
        Peer last = std::move(*peer);
        peers_.erase(peer);
        if (!last.waiting.empty()) peers_.push_back(std::move(last));
        return first;
    }
    // Removes it if it waits.
    void remove(const Channel& channel, const T& what) {
        const auto peer = find(peers_, channel);
        if (peer == peers_.end()) return;
        // When a channel ends, its transfers end in about this order.
        const auto at = std::find(peer->waiting.begin(), peer->waiting.end(), what);
        if (at != peer->waiting.end()) peer->waiting.erase(at);
        if (peer->waiting.empty()) peers_.erase(peer);
    }
    // Removes all of a peer, and returns how much it was.
    size_t forget(const Channel& channel) {
        const size_t number = count(channel);
        if (number != 0) peers_.erase(find(peers_, channel));
        return number;
    }
    // Removes that for which `is(what)` is true, and returns how much it was.
    template <class Is>
    size_t erase_if(Is&& is) {
        size_t number = 0;
        for (Peer& peer : peers_) number += std::erase_if(peer.waiting, is);
        std::erase_if(peers_, [](const Peer& peer) { return peer.waiting.empty(); });
        return number;
    }

  private:
    template <class Peers>
    static auto find(Peers& peers, const Channel& channel) {
        return std::find_if(peers.begin(), peers.end(),
                            [&](const Peer& peer) { return peer.channel == &channel; });
    }

    std::deque<Peer> peers_;  // in turn
};

}  // namespace tern
