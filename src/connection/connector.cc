// SPDX-License-Identifier: BSD-3-Clause
#include "connection/connector.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/trace.h"
#include "verbs/queue_pair.h"

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
    const bool at_once = !connection.sends.open() || may_connect(connection, peers);
    return at_once ? 0 : connection.handshake.deadline();
}

}  // namespace

Connector::Connector(ibv_pd* pd, const verbs::Port& port, const ConnectorSettings& settings,
                     std::unique_ptr<Datagrams> datagrams, ibv_cq* cq, ibv_srq* srq,
                     const PeerAddress& self, ConnectorOwner& owner)
    : datagrams_(std::move(datagrams)),
      self_(self),
      owner_(owner),
      probes_(*datagrams_, self, settings.times),
      inbox_(*datagrams_),
      timers_(table_, alarm_),
      ended_(table_, owner, alarm_),
      new_({pd, cq, srq, port, settings.queues, settings.short_sends, settings.retry}, self,
           settings.times, settings.long_queues, table_, timers_, peers_, former_, ended_, owner) {}

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
        // Those who do not hear of it find out by their time limits, too.
    }
    // Queue pairs go first: the connections own memory that the queue pairs access.
    table_.for_each([](Connection& connection) { connection.qp.reset(); });
}

Connection* Connector::connect(const PeerAddress& peer, std::string& why) {
    new_.claim(peer);
    Connection* const known = peers_.current(peer);
    if (known != nullptr && !known->sends.open()) {
        why = "the completion queue cannot grow";
        return nullptr;  // tick() turns the connection away
    }
    const bool ends = known != nullptr && known->handshake.state() > Handshake::State::kUp;
    if (known != nullptr && !ends) return known;
    if (Connection* next = peers_.next(peer); next != nullptr) return next;
    Connection* connection = new_.make(peer, why);
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
        else
            act(*connection, connection->handshake.connect(owner_.now()));
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
    // It was sent before the peer left.
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
    if (Connection* known = peers_.current(packet.from); known != nullptr) {
        Connection& connection = *known;
        // The queue pair is connected by the address from which the peer connects its own.
        if (connection.peer.port.incomplete) new_.connecting().complete(connection, packet.from);
        const uint32_t token = connection.handshake.token();
        act(connection, connection.handshake.receive(packet, owner_.now()));
        // A newer attempt of the peer has ended this connection, and opens the next one.
        const bool over = connection.failed || connection.handshake.token() != token;
        if (!over || packet.type != PacketType::kConnect) return;
    }
    if (packet.type == PacketType::kConnect && packet.peer_token == 0) return take_attempt(packet);
    const auto answer = answer_stray(packet, self_);
    if (answer) datagrams_->send(*answer, packet.from.port);
}

// A connection that was up and has lost nothing ends without an error; the endpoints fail when they
// are used again. So programs that end at about the same time see no errors.
void Connector::on_left(const PeerAddress& peer) {
    TERN_DEBUG("the interface of %s is closed", peer.to_string().c_str());
    former_.on_left(peer);
    probes_.on_left(peer);
    // The next connection first: it would begin when the present one is over.
    for (Connection* connection : {peers_.next(peer), peers_.current(peer)}) {
        if (connection == nullptr) continue;
        (void)connection->handshake.abandon();
        // An attempt that nothing waits for has lost nothing either.
        const bool waited_for = !connection->established && owner_.wanted(*connection);
        close(*connection, waited_for ? Status::kPeerClosed : Status::kConnectionReset, kHasLeft);
    }
}

void Connector::on_spare(const Packet& packet) {
    Connection* const connection = peers_.current(packet.from);
    if (connection != nullptr && connection->handshake.is_spare(packet)) owner_.spare(*connection);
}

// No datagram reaches the peers on that port, so handshakes with them would only run into their
// time limit.
void Connector::on_unreachable(const PortAddress& port, int error) {
    const std::string why = "no datagram can be sent to its address (" +
                            std::string(strerror(error)) +
                            "); check that the host is up, and the GID or LID of its port";
    while (Connection* const connection = new_.connecting().take(port))
        if (connection->handshake.state() < Handshake::State::kUp)
            fail(*connection, Status::kRefused, why);
    probes_.on_unreachable(port);
}

// Answers the peer's attempt with a connection that has not begun, or refuses it.
void Connector::take_attempt(const Packet& packet) {
    std::string why;
    new_.claim(packet.from);
    Connection* connection = peers_.current(packet.from);
    if (connection == nullptr) connection = new_.make(packet.from, why);
    if (connection != nullptr) {
        peers_.set_current(packet.from, *connection);
        act(*connection, connection->handshake.receive(packet, owner_.now()));
        return;
    }
    new_.release(packet.from);
    // The peer asks again, and there may be room when connections are destroyed.
    if (!ended_.empty()) return;
    datagrams_->send(refuse(packet, self_, Refusal::kResources), packet.from.port);
    new_.admission().on_refused(packet.from, why);
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
            return fail(connection, Status::kDevice,
                        std::string("cannot connect the queue pair: ") + strerror(error));
    }
    if (actions.send) send();
    if (actions.established) {
        connection.established = true;
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
        return close(connection, Status::kTimedOut, "the peer does not answer connection requests");
    if (!connection.established && actions.refusal != Refusal::kNone)
        return close(
            connection, Status::kRefused,
            std::string("the peer refuses to be connected to: ") + refusal_text(actions.refusal));
    if (connection.established || !owner_.wanted(connection))
        return close(connection, actions.lost ? Status::kConnectionReset : Status::kOk,
                     "the peer has dropped the connection");
    if (++connection.attempts >= kMostAttempts)
        return close(connection, Status::kRefused, "the peer drops each attempt to connect");
    if (!begin_anew(connection))
        close(connection, Status::kDevice,
              "cannot connect again: the device or memory has no room");
}

// When attempts cross, a connection may be lost before anything is sent on it. If operations wait
// for it, the object stays and gets a new queue pair and handshake; a closed connection takes the
// old ones. The handshake begins with the packet that is being handled, or at the next tick.
bool Connector::begin_anew(Connection& connection) {
    std::string why;
    Connection* other = new_.make(connection.peer, connection.sends.depth(), why);
    if (other == nullptr) return false;
    table_.unindex(connection);
    table_.unindex(*other);
    std::swap(connection.qp, other->qp);
    table_.index(connection);
    table_.index(*other);
    std::swap(connection.last_receive, other->last_receive);
    std::swap(connection.handshake, other->handshake);
    close(*other, Status::kOk, "");
    timers_.set(connection, 0);
    return true;
}

void Connector::data_arrived(Connection& connection) {
    act(connection, connection.handshake.data_arrived(owner_.now()));
}

void Connector::disconnect(Connection& connection, bool patient) {
    if (connection.failed) return;
    const bool waited_for = owner_.wanted(connection);
    // The peer has not seen this side's queue pair connected, so it has sent nothing.
    if (connection.handshake.state() == Handshake::State::kConnecting && !waited_for)
        return fail(connection, Status::kOk, "its last endpoint has gone");
    connection.ending = Connection::Ending::kLeft;
    connection.handshake.be_patient(patient);
    connection.handshake.want(false, owner_.now());
    timers_.set(connection, due(connection, peers_));
    finish_if_idle(connection);
}

void Connector::resume(Connection& connection) {
    if (connection.ending == Connection::Ending::kLeft)
        connection.ending = Connection::Ending::kNot;
    connection.handshake.want(true, owner_.now());
}

bool Connector::lengthen(Connection& connection) {
    TERN_ASSERT(connection.up() && connection.sends.idle());
    if (peers_.next(connection.peer) != nullptr) return false;
    former_.on_busy(connection.peer);
    std::string why;
    Connection* const next = new_.make(connection.peer, why);
    if (next == nullptr) return false;
    TERN_DEBUG("ends the connection to %s for one with a long send queue",
               connection.peer.to_string().c_str());
    peers_.set_next(connection.peer, *next);
    connection.handshake.be_patient(true);
    act(connection, connection.handshake.disconnect(owner_.now()));
    return true;
}

void Connector::finish_if_idle(Connection& connection) {
    if (connection.failed || !connection.sends.idle() || connection.holds != 0) return;
    if (connection.handshake.state() == Handshake::State::kDraining) {
        // Transfers finish first, if the connection was up so that they could begin.
        if (connection.transfers != 0 && connection.established) return;
        act(connection, connection.handshake.drained());
    } else if (connection.ending == Connection::Ending::kLeft && connection.up() &&
               connection.transfers == 0) {
        connection.ending = Connection::Ending::kNot;
        connection.sends.reserve(SendQueue::kAllPlaces);
        act(connection, connection.handshake.disconnect(owner_.now()));
    }
}

void Connector::fail(Connection& connection, Status status, const std::string& why,
                     Refusal refusal) {
    if (connection.failed) return;
    const bool refuses = !connection.established && status != Status::kCanceled;
    const auto actions = connection.handshake.abandon(refuses ? refusal : Refusal::kNone);
    if (actions.send) datagrams_->send(actions.packet, connection.peer.port);
    close(connection, status, why);
}

// Stops sending. Work requests in the send queue complete or are flushed, in order. A last one
// marks the end, because unsignaled work requests that succeed have no completion.
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
    // The next connection to the peer, if one waits, may then begin.
    Connection* next = nullptr;
    if (peers_.remove(connection.peer, connection)) {
        next = peers_.current(connection.peer);
        timers_.set(*next, 0);
    }
    new_.release(connection.peer);
    ended_.add(connection);
    table_.end();
    (void)verbs::to_error(connection.qp.get());
    if (!connection.sends.idle()) owner_.post_marker(connection);
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
    const unsigned count = ended_.destroy();
    if (count != 0) new_.admission().update();
    return count;
}

Connection* Connector::find_accepted(uint32_t qp_num) {
    new_.adopt();
    return table_.find(qp_num);
}

void Connector::turn_away(Connection& connection) {
    const std::string why = "the completion queue cannot grow";
    new_.admission().on_refused(connection.peer, why);
    fail(connection, Status::kConnectionReset, why, Refusal::kResources);
}

// An attempt to connect to a peer that has left would be repeated until its time limit.
void Connector::begin_handshake(Connection& connection, uint64_t now) {
    if (former_.has_left(connection.peer))
        fail(connection, Status::kPeerClosed, kHasLeft);
    else
        act(connection, connection.handshake.connect(now));
}

// The next connection waits for the end of this one, for as long as the peer lives: a work request
// shows that.
void Connector::on_deadline(Connection& connection, uint64_t now) {
    act(connection, connection.handshake.tick(now));
    if (connection.handshake.state() == Handshake::State::kClosing && connection.sends.idle() &&
        peers_.next(connection.peer) != nullptr)
        owner_.post_marker(connection);
}

void Connector::look_at(Connection& connection, uint64_t now) {
    TERN_ASSERT(!connection.failed);
    if (!connection.sends.open())
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
