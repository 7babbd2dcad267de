// SPDX-License-Identifier: BSD-3-Clause
#include "connection/new_connections.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs/queue_pair.h"

namespace tern {

NewConnections::NewConnections(const QueuePairs& queue_pairs, const PeerAddress& self,
                               const HandshakeTimes& times, uint32_t long_queues,
                               ConnectionTable& table, Timers& timers, Peers& peers,
                               const FormerPeers& former, EndedConnections& ended,
                               ConnectorOwner& owner)
    : queue_pairs_(queue_pairs),
      self_(self),
      times_(times),
      table_(table),
      timers_(timers),
      peers_(peers),
      former_(former),
      ended_(ended),
      owner_(owner),
      acceptor_(queue_pairs_, self, times),
      admission_(acceptor_, table, owner,
                 {.long_places = queue_pairs.sizes.sends,
                  .short_places = queue_pairs.short_sends,
                  .long_queues = long_queues}) {
    admission_.update();
}

void NewConnections::claim(const PeerAddress& peer) {
    while (!acceptor_.claim(peer)) adopt();
}

void NewConnections::release(const PeerAddress& peer) {
    if (!peers_.has(peer)) acceptor_.release(peer);
}

Connection* NewConnections::make(const PeerAddress& peer, uint32_t places, std::string& why) {
    const auto refuse = [&](const char* what, int error) {
        why = std::string(what) + ": " + strerror(error);
        return nullptr;
    };
    if (admission_.table_is_full()) return refuse("too many connections", ENOMEM);
    if (!admission_.reserve_completions(places))
        return refuse("the completion queue cannot grow", errno);
    const char* what = nullptr;
    auto qp = queue_pairs_.create(places, what);
    if (!qp) return refuse(what, errno);
    const uint32_t token = acceptor_.next_token();
    const Handshake handshake(token, self_, peer, queue_pairs_.parameters(*qp), times_);
    return &enter(peer, std::move(qp), handshake, places);
}

// Makes a row in the table. `places`: of the send queue; the completion queue must have room.
Connection& NewConnections::enter(const PeerAddress& peer, verbs::QueuePair qp,
                                  const Handshake& handshake, uint32_t places) {
    auto connection = owner_.make_connection(table_.next_index(), peer, handshake);
    connection->sends.open(places);
    ended_.make_room();
    timers_.make_room();
    Connection& added = table_.add(std::move(connection), std::move(qp));
    connecting_.add(added);
    admission_.update();
    return added;
}

// These connections are up for their peers, which may have sent data, so each gets a row. If
// the completion queue has no room for its sends, its send queue gets no places, and
// Connector::tick() turns it away after the data that has come over it is taken.
void NewConnections::adopt() {
    for (Acceptor::Accepted& accepted : acceptor_.take()) {
        // A late packet has opened the connection, or the peer has not really left, and has sent
        // data.
        if (former_.has_left(accepted.peer)) {
            acceptor_.release(accepted.peer);
            (void)verbs::to_error(accepted.qp.get());
            ended_.retire(std::move(accepted.qp), false);
            continue;
        }
        const bool room = admission_.reserve_completions(accepted.sends);
        Connection& connection = enter(accepted.peer, std::move(accepted.qp), accepted.handshake,
                                       room ? accepted.sends : 0);
        peers_.set_current(accepted.peer, connection);
        timers_.set(connection, room ? connection.handshake.deadline() : 0);
    }
}

}  // namespace tern
