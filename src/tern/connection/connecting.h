// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <unordered_map>
#include <vector>

#include "common/make_room.h"
#include "tern/base/shortage.h"
#include "tern/base/tunables.h"
#include "tern/connection/connection.h"

namespace tern {

// The connections that wait for room on this side's device, in their order. Only the first tries,
// and after a try in vain not at once again, however many wait. Pure: times are the caller's, in
// nanoseconds. Control path.
class RoomQueue {
  public:
    bool empty() const { return waiting_.empty(); }
    uint32_t size() const { return static_cast<uint32_t>(waiting_.size()); }
    // Null: none waits.
    Connection* first() const { return waiting_.empty() ? nullptr : waiting_.front(); }
    // To be called before a connection is made, so that add() does not allocate.
    void make_room(size_t connections) { base::make_room(waiting_, connections); }
    void add(Connection& connection) {
        if (!has(connection)) waiting_.push_back(&connection);
    }
    bool has(const Connection& connection) const {
        return std::find(waiting_.begin(), waiting_.end(), &connection) != waiting_.end();
    }
    void remove(const Connection& connection) { std::erase(waiting_, &connection); }

    // Whether the connection, or a new one (null), may try.
    bool may_try(const Connection* connection, uint64_t now) const {
        return waiting_.empty() || (waiting_.front() == connection && backoff_.over(now));
    }
    // When the first is to try.
    uint64_t next() const { return backoff_.next(); }
    // The device has no room.
    void failed(uint64_t now) { backoff_.refused(now); }
    // The device has made something, or something has gone.
    void freed() { backoff_.granted(); }

  private:
    std::vector<Connection*> waiting_;
    Backoff backoff_{kRoomRetry, 16};
};

// The connections that are not up yet, by the ports of their peers: when a port turns out to be
// unreachable, no other connections are looked at. Control path.
class Connecting {
  public:
    void add(Connection& connection) noexcept try {
        by_port_[connection.peer.port].emplace(connection.index, &connection);
    } catch (const std::bad_alloc&) {
        // The connection then ends by its time limit.
    }
    // The connection is up, or over.
    void remove(Connection& connection) {
        const auto found = by_port_.find(connection.peer.port);
        if (found == by_port_.end()) return;
        found->second.erase(connection.index);
        if (found->second.empty()) by_port_.erase(found);
    }
    // The peer has said what its address is.
    void complete(Connection& connection, const PeerAddress& peer) {
        remove(connection);
        connection.peer = peer;
        if (!connection.established && !connection.failed) add(connection);
    }
    // Visits the connections to this port.
    template <class Visit>
    void for_each(const PortAddress& port, Visit&& visit) const {
        const auto found = by_port_.find(port);
        if (found == by_port_.end()) return;
        for (const auto& [index, connection] : found->second) visit(*connection);
    }
    // One whose handshake has begun, and whose peer has not answered. Null: there is none.
    Connection* unanswered() const {
        for (const auto& [port, connections] : by_port_)
            for (const auto& [index, connection] : connections)
                if (connection->handshake.state() == Handshake::State::kConnecting &&
                    connection->handshake.deadline() != UINT64_MAX)
                    return connection;
        return nullptr;
    }
    // One to this port, which is removed. Null: there is none.
    Connection* take(const PortAddress& port) {
        const auto found = by_port_.find(port);
        if (found == by_port_.end()) return nullptr;
        Connection* const connection =
            found->second.empty() ? nullptr : found->second.begin()->second;
        if (connection == nullptr)
            by_port_.erase(found);
        else
            remove(*connection);
        return connection;
    }

  private:
    // By their indices: the order depends on nothing else, as simulations need it.
    std::unordered_map<PortAddress, std::map<uint32_t, Connection*>, PortAddressHash> by_port_;
};

}  // namespace tern
