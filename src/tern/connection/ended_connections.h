// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tern/connection/connection.h"
#include "tern/connection/connection_table.h"
#include "tern/connection/retired_queue_pairs.h"
#include "tern/connection/timers.h"

namespace tern {

// Connections that are over, in good order too: each stays in the table until its last work request
// has completed, nobody holds it, and all that the peer has sent is delivered (Hearing). Then it is
// destroyed, except for its queue pair: see RetiredQueuePairs. Control path.
class EndedConnections {
  public:
    EndedConnections(ConnectionTable& table, ConnectorOwner& owner, Alarm& alarm)
        : table_(table), owner_(owner), alarm_(alarm) {}

    bool empty() const { return over_.empty(); }
    // To be called before a connection is added to the table, so that add() does not throw.
    void make_room();
    void add(Connection& connection) {
        connection.hearing.begin(rounds_);
        connection.to_mark = connection.handshake.peer_token() != 0 && connection.sends.open();
        mark(connection);
        over_.push_back(&connection);
        alarm_.set_ended(true);
    }
    // All connections of the table are over. A call that was left by an exception may have
    // forgotten some.
    void add_all();
    // The peer has left. Its silence, of which the device may have told before, is no error.
    void on_left(const PeerAddress& peer);
    // Reports and destroys connections that have nothing outstanding; returns how many. A round of
    // polls precedes each call. Looks at a few, at others in the next call. `gone` is called with
    // the peer of each. Never from within a callback.
    unsigned destroy(const std::function<void(const PeerAddress&)>& gone);
    // Whether destroy() has work to do before another work request completes.
    bool may_destroy() const;

    // A queue pair is in the error state, and nothing is outstanding on it. `reported`: the device
    // has reported its last receive.
    void retire(verbs::QueuePair qp, bool reported);
    // Whether queue pairs have been destroyed since the last call.
    bool take_room() { return std::exchange(room_, false); }
    // Queue pairs that outlive their connections. While there are any, the device's events must be
    // taken before Connector::progress().
    RetiredQueuePairs& retired() { return retired_; }

  private:
    bool may_go(Connection& connection);
    void mark(Connection& connection);

    ConnectionTable& table_;
    ConnectorOwner& owner_;
    Alarm& alarm_;
    std::vector<Connection*> over_;  // has room for all; in no order
    size_t at_ = 0;                  // where the next destroy() begins
    uint64_t rounds_ = 0;            // calls of destroy()
    bool destroying_ = false;        // within destroy()
    bool room_ = false;              // of take_room()
    RetiredQueuePairs retired_;
};

}  // namespace tern
