// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <utility>

#include "tern/rendezvous/peer_turns.h"
#include "tern/rendezvous/transfer_accounts.h"

namespace tern {

// Requests of peers, Fetch or Deliver frames, that wait for a place in the table of transfers, in
// turn by peer.
template <class Frame>
class WaitingRequests {
  public:
    using Request = std::pair<Channel*, Frame>;

    explicit WaitingRequests(TransferAccounts& accounts) : accounts_(accounts) {}

    bool empty() const { return turns_.empty(); }
    // False: more requests wait than a peer that keeps to the protocol can have under way.
    bool add(Channel& channel, const Frame& frame) {
        if (turns_.count(channel) == kMost) return false;
        turns_.push(channel, frame);
        accounts_.request_waits();
        return true;
    }
    // Whether there is a request of a peer for which `may(channel)` is true.
    template <class May>
    bool any(May&& may) const {
        return turns_.next(may) != nullptr;
    }
    // Removes the first request of the first such peer in turn. Null channel: there is none.
    template <class May>
    Request take(May&& may) {
        const auto* const peer = turns_.next(may);
        if (peer == nullptr) return {};
        Channel* const channel = peer->channel;
        accounts_.requests_taken(1);
        return {channel, turns_.pop(*channel)};
    }
    // The channel is over.
    void forget(Channel& channel) { accounts_.requests_taken(turns_.forget(channel)); }

  private:
    static constexpr uint32_t kMost = 1 << 16;  // that wait, of one peer: it has as many numbers

    TransferAccounts& accounts_;
    PeerTurns<Frame> turns_;
};

}  // namespace tern
