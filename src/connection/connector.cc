// SPDX-License-Identifier: BSD-3-Clause
#include "connection/connector.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tern {

Connector::Connector(ibv_pd* pd, const verbs::Port& port, const ConnectorSettings& settings,
                     std::unique_ptr<Datagrams> datagrams, ibv_cq* cq, ibv_srq* srq,
                     const PeerAddress& self, ConnectorOwner& owner)
    : settings_(settings),
      queue_pairs_{pd, cq, srq, port, settings.queues, settings.retry},
      datagrams_(std::move(datagrams)),
      self_(self),
      owner_(owner),
      acceptor_(queue_pairs_, self, settings.times),
      by_qp_num_(16) {}

Connector::~Connector() {
    const auto abandon = [this](Handshake& handshake, const PeerAddress& peer) {
        const auto actions = handshake.abandon();
        if (!actions.send) return;
        datagrams_->send(actions.packet, peer.port, peer.interface.qp_num);
        datagrams_->complete_sends();
    };
    for (auto& accepted : acceptor_.take()) abandon(accepted.handshake, accepted.peer);
    for (const auto& connection : table_)
        if (connection && !connection->failed) abandon(connection->handshake, connection->peer);
    // Queue pairs go first: the connections own memory that the queue pairs access.
    for (const auto& connection : table_)
        if (connection) connection->qp.reset();
}

Connection* Connector::connect(const PeerAddress& peer, std::string& why) {
    claim(peer);
    const auto known = peers_.find(peer);
    if (known != peers_.end() && !known->second->sends.open()) {
        why = "the completion queue cannot grow";
        return nullptr;  // tick() turns the connection away
    }
    const bool ends =
        known != peers_.end() && known->second->handshake.state() > Handshake::State::kUp;
    if (known != peers_.end() && !ends) return known->second;
    const auto next = next_.find(peer);
    if (next != next_.end()) return next->second;
    Connection* connection = begin(peer, why);
    if (connection == nullptr) {
        release(peer);
        return nullptr;
    }
    (ends ? next_ : peers_)[peer] = connection;
    if (!ends) act(*connection, connection->handshake.connect(owner_.now()));
    return connection;
}

// Makes a queue pair, a row in the table and a handshake that has not begun. The caller enters the
// connection into `peers_` or `next_`.
Connection* Connector::begin(const PeerAddress& peer, std::string& why) {
    const auto refuse = [&](const char* what, int error) {
        why = std::string(what) + ": " + strerror(error);
        return nullptr;
    };
    if (full()) return refuse("too many connections", ENOMEM);
    if (!completions_for_one_more()) return refuse("the completion queue cannot grow", errno);
    const char* what = nullptr;
    auto qp = queue_pairs_.create(what);
    if (!qp) return refuse(what, errno);
    const uint32_t token = acceptor_.next_token();
    const Handshake handshake(token, self_, peer, queue_pairs_.parameters(token, *qp),
                              settings_.times);
    return &enter(peer, std::move(qp), handshake, settings_.queues.sends);
}

// Makes a row in the table. `sends`: places in the send queue; the completion queue must have room.
Connection& Connector::enter(const PeerAddress& peer, verbs::QueuePair qp,
                             const Handshake& handshake, uint32_t sends) {
    uint32_t index = static_cast<uint32_t>(table_.size());
    if (free_.empty()) {
        table_.emplace_back();
    } else {
        index = free_.back();
        free_.pop_back();
    }
    table_[index] = owner_.make_connection(index, peer, handshake);
    Connection& connection = *table_[index];
    connection.tag = work_request_id::connection_tag(index, ++generation_);
    connection.sends.open(sends);
    connection.qp = std::move(qp);
    index_qp(connection);
    most_ = std::max(most_, ++live_);
    allow_accepting();
    return connection;
}

// Keeps rows for connections accepted in the background, whose peers are told beforehand.
bool Connector::full() const {
    return work_request_id::kMaxConnections - table_.size() + free_.size() <= Acceptor::kMost;
}

bool Connector::completions_for_one_more() {
    const bool room = owner_.reserve_completions((live_ + 1 + static_cast<uint32_t>(over_.size())) *
                                                 settings_.queues.sends);
    starved_ = !room;
    allow_accepting();
    return room;
}

unsigned Connector::progress() {
    unsigned handled = 0;
    const bool waiting = datagrams_waiting();
    // The packet may belong to a connection accepted in the background.
    adopt();
    if (waiting) {
        waiting_ = false;
        handle(packet_);
        ++handled;
    }
    const uint64_t now = owner_.now();
    // A waiting packet may be the answer that is due.
    if (now >= deadline_ && !datagrams_waiting()) tick(now);
    return handled;
}

void Connector::handle(const Packet& packet) {
    if (packet.to != self_.interface)
        return;  // meant for an earlier interface with this queue pair number
    switch (packet.type) {
        case PacketType::kPing: {
            Packet alive;
            alive.type = PacketType::kAlive;
            alive.peer_token = packet.token;
            alive.from = self_;
            alive.to = packet.from.interface;
            datagrams_->send(alive, packet.from.port, packet.from.interface.qp_num);
            return;
        }
        case PacketType::kAlive:
            std::erase_if(probes_, [&](const Probe& probe) { return probe.peer == packet.from; });
            break;
        default:
            break;
    }
    const auto known = peers_.find(packet.from);
    if (known != peers_.end()) {
        Connection& connection = *known->second;
        const uint32_t token = connection.handshake.token();
        act(connection, connection.handshake.receive(packet, owner_.now()));
        // A newer attempt of the peer has ended this connection, and opens the next one.
        const bool over = connection.failed || connection.handshake.token() != token;
        if (!over || packet.type != PacketType::kConnect) return;
    }
    if (packet.type == PacketType::kConnect && packet.peer_token == 0) return take_attempt(packet);
    const auto answer = answer_stray(packet, self_);
    if (answer) datagrams_->send(*answer, packet.from.port, packet.from.interface.qp_num);
}

// Answers the peer's attempt with a connection that has not begun, or refuses it.
void Connector::take_attempt(const Packet& packet) {
    std::string why;
    claim(packet.from);
    const auto known = peers_.find(packet.from);
    Connection* connection = known != peers_.end() ? known->second : begin(packet.from, why);
    if (connection != nullptr) {
        peers_[packet.from] = connection;
        act(*connection, connection->handshake.receive(packet, owner_.now()));
        return;
    }
    release(packet.from);
    // The peer asks again, and there may be room when connections are destroyed.
    if (!over_.empty()) return;
    datagrams_->send(refuse(packet, self_, Refusal::kResources), packet.from.port,
                     packet.from.interface.qp_num);
    if (!std::exchange(refusal_reported_, true)) owner_.refused(packet.from, why);
}

void Connector::act(Connection& connection, const Handshake::Actions& actions) {
    const auto send = [&] {
        datagrams_->send(actions.packet, connection.peer.port, connection.peer.interface.qp_num);
    };
    if (actions.connect_qp && connection.handshake.peer().version != QpParameters::kVersion) {
        if (actions.send) send();  // the peer learns this side's version too
        fail(connection, Status::kProtocol, "the peer's Tern has another version of the protocol",
             Refusal::kVersion);
        return;
    }
    if (actions.connect_qp && !connect_qp(connection)) return;
    if (actions.send) send();
    if (actions.established) {
        connection.established = true;
        owner_.established(connection);
        finish_if_idle(connection);
    }
    if (actions.drain) {
        connection.sends.reserve(SendQueue::kAllPlaces);
        owner_.draining(connection);
        finish_if_idle(connection);
    }
    if (actions.closed)
        ended(connection, actions);
    else
        wake_at(connection.handshake.deadline());
}

void Connector::ended(Connection& connection, const Handshake::Actions& actions) {
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
    Connection* other = begin(connection.peer, why);
    if (other == nullptr) return false;
    std::swap(connection.qp, other->qp);
    std::swap(connection.handshake, other->handshake);
    close(*other, Status::kOk, "");
    rebuild_index(by_qp_num_.size());
    wake_at(0);
    return true;
}

// The handshake has not begun, and no earlier connection to the peer exists.
bool Connector::may_connect(const Connection& connection) const {
    if (connection.handshake.state() != Handshake::State::kConnecting ||
        connection.handshake.deadline() != UINT64_MAX)
        return false;
    const auto known = peers_.find(connection.peer);
    return known != peers_.end() && known->second == &connection;
}

bool Connector::connect_qp(Connection& connection) {
    const int error =
        queue_pairs_.connect(connection.qp.get(), connection.peer, connection.handshake);
    if (error == 0) return true;
    fail(connection, Status::kDevice,
         std::string("cannot connect the queue pair: ") + strerror(error));
    return false;
}

void Connector::data_arrived(Connection& connection) {
    act(connection, connection.handshake.data_arrived(owner_.now()));
}

void Connector::disconnect(Connection& connection) {
    if (connection.failed) return;
    connection.closing = true;
    finish_if_idle(connection);
}

void Connector::finish_if_idle(Connection& connection) {
    if (connection.failed || !connection.sends.idle() || connection.holds != 0) return;
    if (connection.handshake.state() == Handshake::State::kDraining) {
        // Transfers finish first, if the connection was up so that they could begin.
        if (connection.transfers != 0 && connection.established) return;
        act(connection, connection.handshake.drained());
    } else if (connection.closing && connection.up() && connection.transfers == 0) {
        connection.closing = false;
        connection.sends.reserve(SendQueue::kAllPlaces);
        act(connection, connection.handshake.disconnect(owner_.now()));
    }
}

void Connector::fail(Connection& connection, Status status, const std::string& why,
                     Refusal refusal) {
    if (connection.failed) return;
    const bool refuses = !connection.established && status != Status::kCanceled;
    const auto actions = connection.handshake.abandon(refuses ? refusal : Refusal::kNone);
    if (actions.send)
        datagrams_->send(actions.packet, connection.peer.port, connection.peer.interface.qp_num);
    close(connection, status, why);
}

// Stops sending. Work requests in the send queue complete or are flushed, in order. A last one
// marks the end, because unsignaled work requests that succeed have no completion.
void Connector::close(Connection& connection, Status status, const std::string& why) {
    connection.failed = true;
    connection.sends.reserve(SendQueue::kAllPlaces);
    connection.transfer_reserve = SendQueue::kAllPlaces;
    connection.status = status;
    connection.why = why;
    leave_table(connection);
    release(connection.peer);
    over_.push_back(&connection);
    --live_;
    (void)verbs::to_error(connection.qp.get());
    if (!connection.sends.idle()) owner_.post_marker(connection);
}

// The next connection to the peer, if one waits, may then begin.
void Connector::leave_table(Connection& connection) {
    const auto is = [&](const Peers& peers, Peers::const_iterator at) {
        return at != peers.end() && at->second == &connection;
    };
    const auto next = next_.find(connection.peer);
    if (is(next_, next)) {
        next_.erase(next);
        return;
    }
    const auto known = peers_.find(connection.peer);
    if (!is(peers_, known)) return;
    peers_.erase(known);
    if (next == next_.end()) return;
    peers_[connection.peer] = next->second;
    next_.erase(next);
    wake_at(0);
}

unsigned Connector::destroy_closed() {
    if (over_.empty()) return 0;
    unsigned count = 0;
    // closed() may close further connections, so the list is taken first.
    std::vector<Connection*> over;
    over.swap(over_);
    for (Connection* connection : over) {
        // Not at the first call: until the next one, the engine takes received data off the
        // completion queue, with its buffers.
        if (!std::exchange(connection->seen_over, true) || !connection->sends.idle() ||
            connection->holds != 0) {
            if (!connection->sends.idle() && !connection->sends.last_is_signaled())
                owner_.post_marker(*connection);
            over_.push_back(connection);
            continue;
        }
        // Operations that wait for a connection that was never up must fail.
        const bool waited_for = !connection->established && owner_.wanted(*connection);
        if (!waited_for) connection->status = connection->outcome();
        owner_.closed(*connection, connection->status, connection->why);
        free_.push_back(connection->index);
        table_[connection->index].reset();
        ++count;
    }
    allow_accepting();
    rebuild_index(by_qp_num_.size());
    return count;
}

bool Connector::may_destroy_closed() const {
    return std::any_of(over_.begin(), over_.end(), [](const Connection* connection) {
        const bool idle = connection->sends.idle();
        return !connection->seen_over ||
               (idle ? connection->holds == 0 : !connection->sends.last_is_signaled());
    });
}

void Connector::tick(uint64_t now) {
    deadline_ = UINT64_MAX;
    // By index: the end of a connection may add rows to the table.
    for (size_t i = 0; i < table_.size(); ++i) {
        Connection* connection = table_[i].get();
        if (connection == nullptr || connection->failed) continue;
        if (!connection->sends.open())
            turn_away(*connection);
        else if (may_connect(*connection))
            act(*connection, connection->handshake.connect(now));
        else if (connection->handshake.deadline() <= now)
            act(*connection, connection->handshake.tick(now));
        else
            wake_at(connection->handshake.deadline());
    }
    tick_probes(now);
}

void Connector::probe(const PeerAddress& peer, void* cookie) {
    for (const Probe& probe : probes_)
        if (probe.cookie == cookie) return;
    const uint64_t now = owner_.now();
    probes_.push_back({peer, now, now + settings_.times.connect_limit, cookie});
    wake_at(now);
}

bool Connector::take_unanswered_probe(void*& cookie) {
    if (unanswered_.empty()) return false;
    cookie = unanswered_.back();
    unanswered_.pop_back();
    return true;
}

void Connector::forget_probe(void* cookie) {
    std::erase_if(probes_, [&](const Probe& probe) { return probe.cookie == cookie; });
    std::erase(unanswered_, cookie);
}

void Connector::look_at_deadlines() {
    if (deadline_ == UINT64_MAX) return;
    deadline_ = UINT64_MAX;
    for (const auto& connection : table_) {
        if (!connection || connection->failed) continue;
        if (may_connect(*connection) || !connection->sends.open()) wake_at(0);
        wake_at(connection->handshake.deadline());
    }
    for (const Probe& probe : probes_) wake_at(std::min(probe.next, probe.limit));
}

void Connector::tick_probes(uint64_t now) {
    for (Probe& probe : probes_) {
        if (now > probe.next) probe.limit += now - probe.next;  // as in Handshake::tick()
        if (now >= probe.limit) {
            unanswered_.push_back(probe.cookie);
            continue;
        }
        if (now >= probe.next) {
            Packet ping;
            ping.type = PacketType::kPing;
            ping.from = self_;
            ping.to = probe.peer.interface;
            datagrams_->send(ping, probe.peer.port, probe.peer.interface.qp_num);
            probe.next = now + settings_.times.retry_most;
        }
        wake_at(std::min(probe.next, probe.limit));
    }
    std::erase_if(probes_, [&](const Probe& probe) { return now >= probe.limit; });
}

void Connector::index_qp(Connection& connection) {
    if ((live_ + over_.size() + 1) * 2 > by_qp_num_.size()) {
        rebuild_index(by_qp_num_.size() * 2);  // includes `connection`, which is in the table
        return;
    }
    const size_t mask = by_qp_num_.size() - 1;
    size_t at = connection.qp->qp_num & mask;
    while (by_qp_num_[at].connection != nullptr) at = (at + 1) & mask;
    by_qp_num_[at] = {connection.qp->qp_num, &connection};
}

void Connector::rebuild_index(size_t size) {
    by_qp_num_.assign(size, {});
    const size_t mask = size - 1;
    for (const auto& connection : table_) {
        if (!connection || !connection->qp) continue;
        size_t at = connection->qp->qp_num & mask;
        while (by_qp_num_[at].connection != nullptr) at = (at + 1) & mask;
        by_qp_num_[at] = {connection->qp->qp_num, connection.get()};
    }
}

Connection* Connector::find_further(uint32_t qp_num) const {
    const size_t mask = by_qp_num_.size() - 1;
    for (size_t at = qp_num & mask; by_qp_num_[at].connection != nullptr; at = (at + 1) & mask)
        if (by_qp_num_[at].qp_num == qp_num) return by_qp_num_[at].connection;
    return nullptr;
}

}  // namespace tern
