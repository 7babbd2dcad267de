// SPDX-License-Identifier: BSD-3-Clause

// Adoption of connections that were accepted in the background. Control path.

#include <utility>

#include "connection/connector.h"

namespace tern {

// Keeps the background thread from accepting the peer from now on. If it has accepted the peer
// already, the connection is adopted.
void Connector::claim(const PeerAddress& peer) {
    while (!acceptor_.claim(peer)) adopt_all();
}

void Connector::release(const PeerAddress& peer) {
    if (!peers_.has(peer)) acceptor_.release(peer);
}

// These connections are up for their peers, which may have sent data, so each gets a row. If
// the completion queue has no room for its sends, its send queue gets no places, and tick() turns
// it away after the data that has come over it is taken.
void Connector::adopt_all() {
    for (Acceptor::Accepted& accepted : acceptor_.take()) {
        // A late packet has opened the connection, or the peer has not really left, and has sent
        // data.
        if (left_.contains(accepted.peer)) {
            acceptor_.release(accepted.peer);
            (void)verbs::to_error(accepted.qp.get());
            retire_queue_pair(std::move(accepted.qp), false);
            continue;
        }
        const bool room = admission_.reserve_completions();
        Connection& connection = enter(accepted.peer, std::move(accepted.qp), accepted.handshake,
                                       room ? settings_.queues.sends : 0);
        peers_.set_current(accepted.peer, connection);
        wake_at(room ? connection.handshake.deadline() : 0);
    }
}

Connection* Connector::find_accepted(uint32_t qp_num) {
    adopt_all();
    return table_.find(qp_num);
}

void Connector::turn_away(Connection& connection) {
    const std::string why = "the completion queue cannot grow";
    admission_.on_refused(connection.peer, why);
    fail(connection, Status::kConnectionReset, why, Refusal::kResources);
}

}  // namespace tern
