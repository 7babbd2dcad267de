// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "base/assert.h"
#include "rendezvous/transfer_accounts.h"

namespace tern {

// Requests of peers, Fetch or Deliver frames, that wait for a place in the table of transfers:
// those of one peer in order, and the peers in turn, so that a peer whose transfers make no
// progress holds up its own requests only.
template <class Frame>
class WaitingRequests {
  public:
    using Request = std::pair<Channel*, Frame>;

    explicit WaitingRequests(TransferAccounts& accounts) : accounts_(accounts) {}

    bool empty() const { return peers_.empty(); }
    // False: more requests wait than a peer that keeps to the protocol can have under way.
    bool add(Channel& channel, const Frame& frame) {
        auto peer = find(channel);
        if (peer == peers_.end()) peer = peers_.insert(peer, {&channel, {}});
        if (peer->frames.size() == kMost) return false;
        peer->frames.push_back(frame);
        accounts_.request_waits();
        return true;
    }
    // Whether there is a request of a peer for which `may(channel)` is true.
    template <class May>
    bool any(May&& may) const {
        return std::any_of(peers_.begin(), peers_.end(),
                           [&](const Peer& each) { return may(*each.channel); });
    }
    // Removes the first request of the first such peer in turn. Null channel: there is none.
    template <class May>
    Request take(May&& may) {
        const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                       [&](const Peer& each) { return may(*each.channel); });
        if (peer == peers_.end()) return {};
        Peer last = std::move(*peer);
        peers_.erase(peer);
        const Request request{last.channel, last.frames.front()};
        last.frames.pop_front();
        accounts_.requests_taken(1);
        if (!last.frames.empty()) peers_.push_back(std::move(last));
        return request;
    }
    // The channel is over.
    void forget(Channel& channel) {
        const auto peer = find(channel);
        if (peer == peers_.end()) return;
        accounts_.requests_taken(peer->frames.size());
        peers_.erase(peer);
    }

  private:
    static constexpr uint32_t kMost = 1 << 16;  // that wait, of one peer: it has as many numbers

    struct Peer {
        Channel* channel = nullptr;
        std::deque<Frame> frames;  // never empty
    };

    typename std::deque<Peer>::iterator find(const Channel& channel) {
        return std::find_if(peers_.begin(), peers_.end(),
                            [&](const Peer& peer) { return peer.channel == &channel; });
    }

    TransferAccounts& accounts_;
    std::deque<Peer> peers_;  // in turn
};

}  // namespace tern
