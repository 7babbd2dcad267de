// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unordered_map>

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

}  // namespace tern
