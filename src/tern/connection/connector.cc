// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/connector.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/verbs/port.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

namespace {

constexpr const char* kHasLeft = "the peer's interface is closed";

// The handshake has not begun, and no earlier connection to the peer exists.
bool may_connect(const Connection& connection, const Peers& peers) {
    return connection.handshake.state() == Handshake::State::kConnecting &&
           connection.handshake.deadline() == UINT64_MAX &&
           peers.current(connection.peer) == &connection;
}

// When look_at() has something to do with the connection.
uint64_t due(const Connection& connection, const Peers& peers) {
    if (!connection.qp)
        return peers.current(connection.peer) == &connection ? connection.wait.next : UINT64_MAX;
    const bool at_once = !connection.sends.open() || may_connect(connection, peers);
    return at_once ? 0 : connection.handshake.deadline();
}

}  // namespace

Connector::Connector(const Parts& parts, const ConnectorSettings& settings,
                     std::unique_ptr<Datagrams> datagrams, const PeerAddress& self,
                     ConnectorOwner& owner)
    : datagrams_(std::move(datagrams)),
      self_(self),
      owner_(owner),
      times_(settings.times),
      probes_(*datagrams_, self, settings.times),
      inbox_(*datagrams_),
      timers_(table_, alarm_),
      ended_(table_, owner, alarm_),
      new_({parts.pd, parts.cq, parts.srq, parts.port, settings.queues, settings.later_sends,
            settings.retry, self.interface},
           self, settings.times, settings.long_queues,
           {.table = table_,
            .timers = timers_,
            .peers = peers_,
            .former = former_,
            .ended = ended_,
            .owner = owner}) {}

Connector::~Connector() {
    // Peers learn that no attempt to connect to this interface will be answered. A few datagrams
    // may be lost: those peers find out by their time limits.
    const uint64_t limit = owner_.now() + kFarewell;
    const auto notify = [&](const PeerAddress& peer) {
        Packet packet;
        packet.type = PacketType::kLeft;
        packet.from = self_;
        packet.to = peer.interface;
        datagrams_->send(packet, peer.port);
        datagrams_->complete_sends();
        return owner_.now() < limit;
    };
    try {
        for (const auto& accepted : new_.acceptor().take()) (void)notify(accepted.peer);
        bool time_is_left = true;
        table_.for_each([&](const Connection& connection) {
            if (!connection.failed && time_is_left) time_is_left = notify(connection.peer);
        });
        if (time_is_left) former_.for_each_acquainted(notify);
    } catch (const std::bad_alloc&) {
        // Peers that are not notified find out by their time limits.
    }
    // Queue pairs go first: the connections own memory that the queue pairs access.
    table_.for_each([](Connection& connection) { connection.qp.reset(); });
}

Connection* Connector::connect(const PeerAddress& peer, std::string& why) {
    new_.claim(peer);
    Connection* const known = peers_.current(peer);
    // One that the completion queue has no room for ends too: tick() turns it away.
    const bool ends = known != nullptr && (known->handshake.state() > Handshake::State::kUp ||
                                           (known->qp && !known->sends.open()));
    if (known != nullptr && !ends) return known;
    if (Connection* next = peers_.next(peer); next != nullptr) return next;
    Connection* connection = nullptr;
    if (room_.find_room(connection, peer, why)) connection = new_.make_waiting(peer);
    if (connection == nullptr) {
        new_.release(peer);
        return nullptr;
    }
    TERN_DEBUG("connects to %s%s", peer.to_string().c_str(),
               ends ? " when the present connection is over" : "");
    if (ends) {
        peers_.set_next(peer, *connection);
    } else {
        peers_.set_current(peer, *connection);
        // If the peer has left, tick() ends it: the user learns of a failure in a call of progress.
        if (former_.has_left(peer))
            timers_.set(*connection, 0);
        else if (!connection->qp)
            room_.wait_here(*connection, why);
        else
            begin_handshake(*connection, owner_.now());
    }
    return connection;
}

unsigned Connector::progress() {
    unsigned handled = 0;
    alarm_.on_progress();
    // The packets may belong to connections accepted in the background.
    adopt();
    for (Packet packet; inbox_.take(packet); ++handled) handle(packet);
    PortAddress unreachable;
    for (int error = 0; datagrams_->take_unreachable(unreachable, error);)
        on_unreachable(unreachable, error);
    if (alarm_.deadline() != UINT64_MAX) {
        const uint64_t now = owner_.now();
        // A waiting packet may be the answer that is due.
        if (now >= alarm_.deadline() && !inbox_.waits()) tick(now);
    }
    // Or each poll would look for packets until the deadline of a handshake that is over.
    if (alarm_.stale()) look_at_deadlines();
    return handled;
}

void Connector::handle(const Packet& packet) {
    if (packet.to != self_.interface)
        return;  // meant for an earlier interface with this queue pair number
    // Packets of a peer that has left were sent before it left.
    if (former_.has_left(packet.from)) return;
    alarm_.expect_packets();
    switch (packet.type) {
        case PacketType::kPing:
            return datagrams_->send(alive(packet, self_), packet.from.port);
        case PacketType::kAlive:
            probes_.on_alive(packet.from);
            break;
        case PacketType::kLeft:
            return on_left(packet.from);
        case PacketType::kSpare:
            return on_spare(packet);
        default:
            break;
    }
    if (Connection* known = peers_.current(packet.from); known != nullptr && known->qp) {
        Connection& connection = *known;
        // The queue pair is connected by the address from which the peer connects its own.
        if (connection.peer.port.incomplete) new_.connecting().complete(connection, packet.from);
        const uint32_t token = connection.handshake.token();
        if (packet.type == PacketType::kAlive && packet.peer_token == token)
            room_.on_alive(connection);
        act(connection, connection.handshake.receive(packet, owner_.now()));
        // A newer attempt of the peer has ended this connection, and opens the next one.
        const bool over = connection.failed || connection.handshake.token() != token;
        if (!over || packet.type != PacketType::kConnect) return;
    }
    if (packet.type == PacketType::kConnect && packet.peer_token == 0)
        return room_.take_attempt(packet);
    const auto answer = answer_stray(packet, self_);
    if (answer) datagrams_->send(*answer, packet.from.port);
}

// A connection that was up and has lost nothing ends without an error; the endpoints fail when they
// are used again. So programs that end at about the same time see no errors.
void Connector::on_left(const PeerAddress& peer) {
    TERN_DEBUG("the interface of %s is closed", peer.to_string().c_str());
    former_.on_left(peer);
    probes_.on_left(peer);
    ended_.on_left(peer);
    // The next connection first: it would begin when the present one is over.
    const auto end = [&](Connection* connection) {
        if (connection == nullptr) return;
        (void)connection->handshake.abandon();
        // An attempt that nothing waits for has lost nothing either.
        const bool waited_for = !connection->established && owner_.wanted(*connection);
        close(*connection, waited_for ? Status::kPeerClosed : Status::kConnectionReset, kHasLeft);
    };
    for (uint8_t path = 0; path < verbs::kMostPaths; ++path) {
        end(peers_.next(peer.on_path(path)));
        end(peers_.current(peer.on_path(path)));
    }
}

void Connector::on_spare(const Packet& packet) {
    Connection* const connection = peers_.current(packet.from);
    if (connection != nullptr && connection->handshake.is_spare(packet)) owner_.spare(*connection);
}

// No datagram reaches the peers on that port. A link that is down may come back: then the
// handshakes go on until their time limit, each repeated packet a try. Otherwise they would only
// run into it.
void Connector::on_unreachable(const PortAddress& port, int error) {
    const std::string why = "no datagram can be sent to its address (" +
                            std::string(strerror(error)) +
                            "); check that the host is up, and the GID or LID of its port";
    if (verbs::may_lack_way(error))
        return new_.connecting().for_each(port,
                                          [&](Connection& connection) { connection.why = why; });
    while (Connection* const connection = new_.connecting().take(port))
        if (connection->handshake.state() < Handshake::State::kUp)
            fail(*connection, Status::kRefused, why);
    probes_.on_unreachable(port);
}

void Connector::act(Connection& connection, const Handshake::Actions& actions) {
    const auto send = [&] { datagrams_->send(actions.packet, connection.peer.port); };
    if (actions.connect_qp && connection.handshake.peer().version != QpParameters::kVersion) {
        if (actions.send) send();  // the peer learns this side's version too
        fail(connection, Status::kProtocol, "the peer's Tern has another version of the protocol",
             Refusal::kVersion);
        return;
    }
    if (actions.connect_qp) {
        if (const int error = new_.connect(connection); error != 0)
            return room_.on_not_connected(connection, error);
    }
    if (actions.send) send();
    if (actions.established) {
        connection.established = true;
        connection.wait = {};
        connection.why.clear();
        new_.connecting().remove(connection);
        alarm_.happened();
        owner_.established(connection);
        finish_if_idle(connection);
    }
    if (actions.drain) {
        connection.sends.reserve(SendQueue::kAllPlaces);
        owner_.draining(connection);
        finish_if_idle(connection);
    }
    if (actions.closed)
        on_closed(connection, actions);
    else
        timers_.set(connection, due(connection, peers_));
}

void Connector::on_closed(Connection& connection, const Handshake::Actions& actions) {
    if (actions.timed_out)
        return close(connection, Status::kTimedOut,
                     "the peer does not answer connection requests" +
                         (connection.why.empty() ? "" : "; at last, " + connection.why));
    if (!connection.established && actions.refusal != Refusal::kNone) {
        const std::string why =
            std::string("the peer refuses to be connected to: ") + refusal_text(actions.refusal);
        if (!owner_.used(connection)) return close(connection, Status::kConnectionReset, why);
        if (actions.refusal == Refusal::kResources)
            return room_.wait_for_peer(connection, Status::kRefused, why);
        return close(connection, Status::kRefused, why);
    }
    // Attempts of sides that wait for room often meet others that are over.
    const bool waits = connection.wait.since != 0 && owner_.used(connection);
    if (!connection.established && waits)
        return room_.wait_for_peer(connection, Status::kRefused,
                                   "the peer drops the attempts to connect");
    if (connection.established || !owner_.wanted(connection))
        return close(connection, actions.lost ? Status::kConnectionReset : Status::kOk,
                     "the peer has dropped the connection");
    if (++connection.attempts >= kConnectAttempts)
        return close(connection, Status::kRefused, "the peer drops each attempt to connect");
    begin_anew(connection);
}

// When attempts cross, a connection may be lost before anything is sent on it. If operations wait
// for it, it gets a new queue pair and handshake, which begins with the packet that is being
// handled, or at the next tick.
void Connector::begin_anew(Connection& connection) {
    std::string why;
    new_.strip(connection);
    if (room_.equip(connection, why))
        timers_.set(connection, 0);
    else
        room_.wait_here(connection, why);
}

void Connector::data_arrived(Connection& connection) {
    if (!connection.failed) act(connection, connection.handshake.data_arrived(owner_.now()));
}

void Connector::disconnect(Connection& connection, bool patient) {
    if (connection.failed) return;
    const bool waited_for = owner_.wanted(connection);
    // The peer has not seen this side's queue pair connected, so it has sent nothing.
    if (connection.handshake.state() == Handshake::State::kConnecting && !waited_for)
        return fail(connection, Status::kOk, "its last endpoint has gone");
    connection.ending = true;
    connection.handshake.be_patient(patient);
    connection.handshake.want(false, owner_.now());
    timers_.set(connection, due(connection, peers_));
    finish_if_idle(connection);
}

void Connector::resume(Connection& connection) {
    connection.ending = false;
    connection.wait.for_peer = false;
    connection.handshake.want(true, owner_.now());
}

void Connector::finish_if_idle(Connection& connection) {
    if (connection.failed || !connection.sends.idle() || connection.holds != 0) return;
    if (connection.handshake.state() == Handshake::State::kDraining) {
        // Transfers finish first, if the connection was up so that they could begin.
        if (connection.transfers != 0 && connection.established) return;
        act(connection, connection.handshake.drained(owner_.sent(connection)));
    } else if (connection.ending && connection.up() && connection.transfers == 0) {
        connection.ending = false;
        connection.sends.reserve(SendQueue::kAllPlaces);
        act(connection, connection.handshake.disconnect(owner_.now(), owner_.sent(connection)));
    }
}

void Connector::fail(Connection& connection, Status status, const std::string& why,
                     Refusal refusal) {
    if (connection.failed) return;
    // The peer ends the connection in good order, and need not wait for this side for ever.
    if (status == Status::kTimedOut && connection.handshake.state() == Handshake::State::kDraining)
        status = Status::kConnectionReset;
    const bool refuses = !connection.established && status != Status::kCanceled;
    const auto actions = connection.handshake.abandon(refuses ? refusal : Refusal::kNone);
    if (actions.send) datagrams_->send(actions.packet, connection.peer.port);
    close(connection, status, why);
}

// Stops sending. Work requests in the send queue complete or are flushed, in order. A last one
// marks the end, because unsignaled work requests that succeed have no completion, and because its
// own comes behind those of all that the device has accepted from the peer. The background thread
// may accept the peer again when the connection is destroyed: frames of the next one come later.
void Connector::close(Connection& connection, Status status, const std::string& why) {
    TERN_ASSERT(!connection.failed);
    TERN_DEBUG("the connection to %s is over (%s): %s", connection.peer.to_string().c_str(),
               connection.established ? "it was up" : "it was never up", why.c_str());
    connection.why = why;
    connection.failed = true;
    connection.sends.reserve(SendQueue::kAllPlaces);
    connection.transfer_reserve = SendQueue::kAllPlaces;
    connection.status = status;
    Timers::cancel(connection);
    new_.connecting().remove(connection);
    new_.queue().remove(connection);
    // The next connection to the peer, if one waits, may then begin.
    Connection* next = nullptr;
    if (peers_.remove(connection.peer, connection)) {
        next = peers_.current(connection.peer);
        timers_.set(*next, 0);
    }
    room_.wake_first();
    table_.end();
    if (connection.qp) (void)verbs::to_error(connection.qp.get());
    ended_.add(connection);
    if (connection.established && status != Status::kTimedOut) former_.on_over(connection.peer);
    // The peer has died while the connection was being replaced.
    if (next != nullptr && connection.established && status == Status::kTimedOut)
        fail(*next, status, why);
}

void Connector::fail_all(Status status, const std::string& why) {
    table_.for_each([&](Connection& connection) { fail(connection, status, why); });
    ended_.add_all();
}

unsigned Connector::destroy_closed() {
    const unsigned count = ended_.destroy([this](const PeerAddress& peer) { new_.release(peer); });
    if (count != 0) new_.admission().update();
    if (ended_.take_room() || count != 0) {
        new_.queue().freed();
        room_.wake_first();
    }
    return count;
}

Connection* Connector::find_accepted(uint32_t qp_num) {
    new_.adopt();
    return table_.find(qp_num);
}

void Connector::turn_away(Connection& connection) {
    const std::string why = "the completion queue cannot grow";
    new_.admission().on_wait(connection.peer, why);
    fail(connection, Status::kConnectionReset, why, Refusal::kResources);
}

// An attempt to connect to a peer that has left would be repeated until its time limit.
void Connector::begin_handshake(Connection& connection, uint64_t now) {
    if (former_.has_left(connection.peer)) return fail(connection, Status::kPeerClosed, kHasLeft);
    connection.wait.begun = now;
    act(connection, connection.handshake.connect(now));
}

// The next connection waits for the end of this one, for as long as the peer lives: a work request
// shows that.
void Connector::on_deadline(Connection& connection, uint64_t now) {
    if (room_.give_way(connection, now)) return;
    act(connection, connection.handshake.tick(now));
    if (connection.handshake.state() == Handshake::State::kClosing && connection.sends.idle() &&
        peers_.next(connection.peer) != nullptr)
        owner_.post_marker(connection);
}

void Connector::look_at(Connection& connection, uint64_t now) {
    TERN_ASSERT(!connection.failed);
    if (!connection.qp)
        room_.try_again(connection, now);
    else if (!connection.sends.open())
        turn_away(connection);
    else if (may_connect(connection, peers_))
        begin_handshake(connection, now);
    else if (connection.handshake.deadline() <= now)
        on_deadline(connection, now);
    else
        timers_.set(connection, due(connection, peers_));
}

void Connector::tick(uint64_t now) {
    // What is due again at once is looked at by the next call.
    for (size_t left = timers_.size(); left != 0; --left) {
        Connection* const connection = timers_.take(now);
        if (connection == nullptr) break;
        look_at(*connection, now);
    }
    probes_.tick(now);
    ended_.retired().tick(now);
    look_at_deadlines();
}

void Connector::look_at_deadlines() {
    const bool none = alarm_.deadline() == UINT64_MAX;
    alarm_.clear();
    if (none) return;
    alarm_.wake_at(std::min(timers_.next(), probes_.deadline()));
    alarm_.set(ended_.retired().deadline());
}

}  // namespace tern
