// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <utility>

#include "tern/connection/peer_set.h"

namespace tern {

// What is known of peers whose connections are over: which have left, because their interfaces are
// closed; and which of the others may still have endpoints to this interface. On whatever path.
// Pure. Control path.
class FormerPeers {
  public:
    bool has_left(const PeerAddress& peer) const { return left_.contains(peer.on_path(0)); }
    void on_left(const PeerAddress& peer) {
        acquainted_.erase(peer.on_path(0));
        left_.insert(peer.on_path(0));
    }
    // A connection to the peer that was up is over.
    void on_over(const PeerAddress& peer) {
        if (!has_left(peer)) acquainted_.insert(peer.on_path(0));
    }
    // Those that may have endpoints to this interface. `visit` returns false to stop.
    template <class Visit>
    void for_each_acquainted(Visit&& visit) const {
        acquainted_.for_each(std::forward<Visit>(visit));
    }

  private:
    PeerSet acquainted_;
    PeerSet left_;
};

}  // namespace tern
