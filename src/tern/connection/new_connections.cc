// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/new_connections.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "tern/base/trace.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

void Admission::on_wait(const PeerAddress& peer, const std::string& why) {
    TERN_DEBUG("the connection to %s waits for room: %s", peer.to_string().c_str(), why.c_str());
    if (!std::exchange(reported_, true)) owner_.waits(peer, why);
}

NewConnections::NewConnections(const QueuePairs& queue_pairs, const PeerAddress& self,
                               const HandshakeTimes& times, uint32_t long_queues,
                               const Parts& parts)
    : queue_pairs_(queue_pairs),
      self_(self),
      times_(times),
      parts_(parts),
      acceptor_(queue_pairs_, self, times),
      admission_(acceptor_, parts.table, parts.owner,
                 {.long_places = queue_pairs.sizes.sends,
                  .later_places = queue_pairs.later_sends,
                  .long_queues = long_queues}) {
    admission_.update();
}

void NewConnections::claim(const PeerAddress& peer) {
    while (!acceptor_.claim(peer)) adopt();
}

void NewConnections::release(const PeerAddress& peer) {
    if (!parts_.peers.has(peer)) acceptor_.release(peer);
}

// `reserved`: the completion queue has room for its places.
verbs::QueuePair NewConnections::create(uint32_t places, bool reserved, std::string& why,
                                        bool& room) {
    const char* what = "the completion queue cannot grow";
    verbs::QueuePair qp;
    if (reserved || admission_.reserve_completions(places)) {
        qp = queue_pairs_.create(places, what);
        room = verbs::may_lack_room(errno);
    } else {
        // Unless the device has failed; and places become free only if there are any.
        room = errno != EIO && parts_.table.places() != 0;
    }
    if (!qp) why = std::string(what) + ": " + strerror(errno);
    admission_.set_starved(!qp);
    return qp;
}

Handshake NewConnections::handshake(const PeerAddress& peer, const ibv_qp* qp) {
    const QpParameters local = qp != nullptr ? queue_pairs_.parameters(*qp) : QpParameters{};
    return {acceptor_.next_token(), self_, peer, local, times_};
}

Connection* NewConnections::make(const PeerAddress& peer, std::string& why, bool& room) {
    room = false;
    if (admission_.table_is_full()) {
        why = std::string("too many connections: ") + strerror(ENOMEM);
        return nullptr;
    }
    const uint32_t places = admission_.places_of_next();
    auto qp = create(places, false, why, room);
    if (!qp) return nullptr;
    const Handshake fresh = handshake(peer, qp.get());
    return &enter(peer, std::move(qp), fresh, places);
}

Connection* NewConnections::make_waiting(const PeerAddress& peer) {
    return admission_.table_is_full() ? nullptr : &enter(peer, {}, handshake(peer, nullptr), 0);
}

bool NewConnections::equip(Connection& connection, std::string& why) {
    TERN_ASSERT(!connection.qp && !connection.failed);
    const bool has_places = connection.sends.open();
    const uint32_t places = has_places ? connection.sends.depth() : admission_.places_of_next();
    bool room = false;
    auto qp = create(places, has_places, why, room);
    if (!qp) return false;
    if (!has_places) connection.sends.open(places);
    connection.handshake = handshake(connection.peer, qp.get());
    parts_.table.give(connection, std::move(qp), has_places ? 0 : places);
    connecting_.add(connection);
    admission_.update();
    return true;
}

// A queue pair that has never been connected has taken no receive.
void NewConnections::strip(Connection& connection) {
    TERN_ASSERT(connection.qp && connection.sends.idle());
    connecting_.remove(connection);
    verbs::QueuePair qp = parts_.table.take(connection);
    if (connection.handshake.peer_token() != 0) {
        (void)verbs::to_error(qp.get());
        parts_.ended.retire(std::move(qp), connection.last_receive);
    }
    connection.last_receive = false;
    connection.handshake = handshake(connection.peer, nullptr);
}

// Makes a row in the table. `places`: of the send queue; the completion queue must have room.
Connection& NewConnections::enter(const PeerAddress& peer, verbs::QueuePair qp,
                                  const Handshake& handshake, uint32_t places) {
    auto connection = parts_.owner.make_connection(parts_.table.next_index(), peer, handshake);
    if (places != 0) connection->sends.open(places);
    parts_.ended.make_room();
    parts_.timers.make_room();
    queue_.make_room(parts_.table.size() + 1);
    Connection& added = parts_.table.add(std::move(connection), std::move(qp));
    if (added.qp) connecting_.add(added);
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
        if (parts_.former.has_left(accepted.peer)) {
            acceptor_.release(accepted.peer);
            (void)verbs::to_error(accepted.qp.get());
            parts_.ended.retire(std::move(accepted.qp), false);
            continue;
        }
        const bool room = admission_.reserve_completions(accepted.sends);
        if (!room) admission_.set_starved(true);
        Connection& connection = enter(accepted.peer, std::move(accepted.qp), accepted.handshake,
                                       room ? accepted.sends : 0);
        parts_.peers.set_current(accepted.peer, connection);
        parts_.timers.set(connection, room ? connection.handshake.deadline() : 0);
    }
}

}  // namespace tern
