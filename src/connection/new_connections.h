// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "connection/acceptor.h"
#include "connection/admission.h"
#include "connection/connecting.h"
#include "connection/ended_connections.h"
#include "connection/former_peers.h"
#include "connection/peers.h"
#include "connection/queue_pairs.h"
#include "connection/timers.h"

namespace tern {

// Makes connections, as far as there is room, and enters them into the table: those that this side
// begins or answers, and those that were accepted in the background. Control path.
class NewConnections {
  public:
    NewConnections(const QueuePairs& queue_pairs, const PeerAddress& self,
                   const HandshakeTimes& times, uint32_t long_queues, ConnectionTable& table,
                   Timers& timers, Peers& peers, const FormerPeers& former, EndedConnections& ended,
                   ConnectorOwner& owner);

    // Keeps the background thread from accepting the peer from now on. If it has accepted the peer
    // already, the connection is adopted.
    void claim(const PeerAddress& peer);
    // The background thread may accept the peer again, unless there is a connection to it.
    void release(const PeerAddress& peer);

    // Makes a queue pair, a row in the table and a handshake that has not begun. The peer must be
    // claimed; the caller enters the connection into Peers. Null on failure; `why` has the reason.
    Connection* make(const PeerAddress& peer, std::string& why) {
        return make(peer, admission_.places_of_next(former_.was_busy(peer)), why);
    }
    // The same, with so many places in its send queue.
    Connection* make(const PeerAddress& peer, uint32_t places, std::string& why);
    // Connects the queue pair to the peer's. Returns 0 or an errno value.
    int connect(const Connection& connection) const {
        return queue_pairs_.connect(connection.qp.get(), connection.peer, connection.handshake);
    }

    // Those that are not up yet.
    Connecting& connecting() { return connecting_; }
    // Where the background thread accepts connections.
    Acceptor& acceptor() { return acceptor_; }
    // Enters the connections that were accepted in the background into the tables.
    void adopt();

    // The room for more of them.
    Admission& admission() { return admission_; }

  private:
    Connection& enter(const PeerAddress& peer, verbs::QueuePair qp, const Handshake& handshake,
                      uint32_t places);

    QueuePairs queue_pairs_;
    PeerAddress self_;
    HandshakeTimes times_;
    ConnectionTable& table_;
    Timers& timers_;
    Peers& peers_;
    const FormerPeers& former_;
    EndedConnections& ended_;
    ConnectorOwner& owner_;
    Connecting connecting_;
    Acceptor acceptor_;
    Admission admission_;
};

}  // namespace tern
