// SPDX-License-Identifier: BSD-3-Clause
#include "tern/veloblock/promotion.h"

namespace tern {

Promotion::Decision Promotion::decide(const Peer& peer, Peer*& victim) {
    if (peer.hot || limits_.most == 0 || messages_of(peer) < limits_.after) return Decision::kStay;
    if (hot_.size() < limits_.most) return Decision::kPromote;
    // Not at every message: the search for a victim visits all hot peers.
    if (limits_.after != 0 && messages_of(peer) % limits_.after != 0) return Decision::kStay;
    const auto least = std::min_element(
        hot_.begin(), hot_.end(),
        [this](const Peer* a, const Peer* b) { return activity_of(*a) < activity_of(*b); });
    if (activity_of(**least) * 2 >= activity_of(peer)) return Decision::kStay;
    victim = *least;
    return Decision::kReplace;
}

void Promotion::demoted(Peer& peer) {
    peer.hot = false;
    peer.messages = 0;
    peer.before = 0;
    std::erase(hot_, &peer);
}

}  // namespace tern
