// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

#include "tern/base/tunables.h"
#include "tern/connection/address.h"

namespace tern {

struct Connection;

// The connection to each peer, and the one that begins when the first, which is ending, is over.
// Control path.
class Peers {
  public:
    // Null: there is none.
    Connection* current(const PeerAddress& peer) const { return find(current_, peer); }
    Connection* next(const PeerAddress& peer) const { return find(next_, peer); }
    bool has(const PeerAddress& peer) const {
        return current_.contains(peer) || next_.contains(peer);
    }

    void set_current(const PeerAddress& peer, Connection& connection) {
        current_[peer] = &connection;
    }
    void set_next(const PeerAddress& peer, Connection& connection) { next_[peer] = &connection; }
    // The connection is over. True: the next one, if any, is now the current one and may begin.
    bool remove(const PeerAddress& peer, const Connection& connection) {
        const auto next = next_.find(peer);
        if (next != next_.end() && next->second == &connection) {
            next_.erase(next);
            return false;
        }
        const auto current = current_.find(peer);
        if (current == current_.end() || current->second != &connection) return false;
        if (next == next_.end()) {
            current_.erase(current);
            return false;
        }
        current->second = next->second;
        next_.erase(next);
        return true;
    }

  private:
    using Map = std::unordered_map<PeerAddress, Connection*, PeerAddressHash>;

    static Connection* find(const Map& map, const PeerAddress& peer) {
        const auto found = map.find(peer);
        return found != map.end() ? found->second : nullptr;
    }

    Map current_;
    Map next_;
};

// A set of peers. It keeps the last ones that were inserted, so that peers that come and go for
// ever need no memory without bound. Control path.
class PeerSet {
  public:
    explicit PeerSet(size_t most = kFormerPeers) : most_(most) {}

    bool contains(const PeerAddress& peer) const { return places_.contains(peer); }
    void insert(const PeerAddress& peer) {
        if (most_ == 0 || contains(peer)) return;
        if (places_.size() == most_) erase(PeerAddress(peers_.front()));
        places_[peer] = peers_.insert(peers_.end(), peer);
    }
    // Whether the peer was in the set.
    bool erase(const PeerAddress& peer) {
        const auto found = places_.find(peer);
        if (found == places_.end()) return false;
        peers_.erase(found->second);
        places_.erase(found);
        return true;
    }
    // In the order of insertion. `visit` returns false to stop.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const PeerAddress& peer : peers_)
            if (!visit(peer)) return;
    }

  private:
    using Peers = std::list<PeerAddress>;

    size_t most_;
    Peers peers_;  // the oldest first
    std::unordered_map<PeerAddress, Peers::iterator, PeerAddressHash> places_;
};

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
    // Visits the peers that may have endpoints to this interface. `visit` returns false to stop.
    template <class Visit>
    void for_each_acquainted(Visit&& visit) const {
        acquainted_.for_each(std::forward<Visit>(visit));
    }

  private:
    PeerSet acquainted_;
    PeerSet left_;
};

}  // namespace tern
