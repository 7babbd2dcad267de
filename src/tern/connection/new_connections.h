// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tern/connection/acceptor.h"
#include "tern/connection/connecting.h"
#include "tern/connection/connection_table.h"
#include "tern/connection/ended_connections.h"
#include "tern/connection/peers.h"
#include "tern/connection/send_queue.h"
#include "tern/connection/timers.h"

namespace tern {

// Whether this side has room for one more connection: a row of the table, places in the
// completion queue, and a queue pair. Keeps rows for connections accepted in the background, whose
// peers are told beforehand. Control path.
class Admission {
  public:
    Admission(Acceptor& acceptor, const ConnectionTable& table, ConnectorOwner& owner,
              const SendQueues& queues)
        : acceptor_(acceptor), table_(table), owner_(owner), queues_(queues) {}

    // There is room for nobody any more.
    void close() {
        closed_ = true;
        update();
    }
    bool closed() const { return closed_; }
    bool table_is_full() const { return table_.room() <= Acceptor::kMost; }
    // Places of the next connection's send queue.
    uint32_t places_of_next() const { return queues_.places_of_next(table_.places()); }
    // Makes room in the completion queue for a connection whose send queue has `places`. False and
    // errno: impossible.
    bool reserve_completions(uint32_t places) {
        return owner_.reserve_completions(table_.places() + places);
    }
    // Lets the background thread accept connections, or not. To be called when the table changes.
    void update() {
        acceptor_.allow(!closed_ && !starved_ && !table_is_full(),
                        queues_.long_queues_left(table_.places()));
    }
    // The device has room for one more, or not: then the background thread accepts none.
    void set_starved(bool starved) {
        starved_ = starved;
        update();
    }
    // A connection waits for room. The first one is reported to the owner.
    void on_wait(const PeerAddress& peer, const std::string& why);

  private:
    Acceptor& acceptor_;
    const ConnectionTable& table_;
    ConnectorOwner& owner_;
    SendQueues queues_;
    bool closed_ = false;
    bool starved_ = false;  // of set_starved()
    bool reported_ = false;
};

// Makes connections, as far as there is room, and enters them into the table: those that this side
// begins or answers, and those that were accepted in the background. Control path.
class NewConnections {
  public:
    // The objects that keep the connections, and whom they are for.
    struct Parts {
        ConnectionTable& table;
        Timers& timers;
        Peers& peers;
        const FormerPeers& former;
        EndedConnections& ended;
        ConnectorOwner& owner;
    };
    NewConnections(const QueuePairs& queue_pairs, const PeerAddress& self,
                   const HandshakeTimes& times, uint32_t long_queues, const Parts& parts);

    // Keeps the background thread from accepting the peer from now on. If it has accepted the peer
    // already, the connection is adopted.
    void claim(const PeerAddress& peer);
    // The background thread may accept the peer again, unless there is a connection to it.
    void release(const PeerAddress& peer);

    // Makes a queue pair, a row in the table and a handshake that has not begun. The peer must be
    // claimed; the caller enters the connection into Peers. Null on failure; `why` has the reason,
    // and `room` whether it is lack of room, which may pass.
    Connection* make(const PeerAddress& peer, std::string& why, bool& room);
    // Makes a connection that has no queue pair yet.
    Connection* make_waiting(const PeerAddress& peer);
    // Gives the connection, which has none, a queue pair and a handshake that has not begun. False:
    // there is no room; `why` has the reason.
    bool equip(Connection& connection, std::string& why);
    // Takes both from a connection that is not up.
    void strip(Connection& connection);
    // Connects the queue pair to the peer's. Returns 0 or an errno value.
    int connect(const Connection& connection) const {
        return queue_pairs_.connect(connection.qp.get(), connection.peer, connection.handshake);
    }

    // The connections that are not up yet.
    Connecting& connecting() { return connecting_; }
    // Where the background thread accepts connections.
    Acceptor& acceptor() { return acceptor_; }
    // Enters the connections that were accepted in the background into the tables.
    void adopt();

    // The connections that wait for room on this side's device.
    RoomQueue& queue() { return queue_; }
    const RoomQueue& queue() const { return queue_; }
    // The room for more connections.
    Admission& admission() { return admission_; }

  private:
    verbs::QueuePair create(uint32_t places, bool reserved, std::string& why, bool& room);
    Handshake handshake(const PeerAddress& peer, const ibv_qp* qp);
    Connection& enter(const PeerAddress& peer, verbs::QueuePair qp, const Handshake& handshake,
                      uint32_t places);

    QueuePairs queue_pairs_;
    PeerAddress self_;
    HandshakeTimes times_;
    const Parts parts_;
    Connecting connecting_;
    Acceptor acceptor_;
    RoomQueue queue_;
    Admission admission_;
};

}  // namespace tern
