// SPDX-License-Identifier: BSD-3-Clause
// Connections for which one of the two devices has no room now.
#include <algorithm>
#include <cstring>

#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/connection/connector.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

namespace {

constexpr const char* kOthersWait = "other connections wait for room on the device, too";

// The begin of a wait, of which `apart` is not to count.
uint64_t later(uint64_t since, uint64_t apart, uint64_t now) {
    return std::min(since + apart, now);
}

}  // namespace

// Makes a connection if nobody else waits for the room. True: it has to wait.
bool Connector::Room::find_room(Connection*& connection, const PeerAddress& peer,
                                std::string& why) {
    if (!c_.new_.queue().empty()) {
        why = kOthersWait;
        return true;
    }
    bool room = false;
    connection = c_.new_.make(peer, why, room);
    return room && connection == nullptr;
}

// Answers the peer's attempt with a connection that has not begun, or refuses it. A peer that finds
// no room is connected to when there is some, unless it gives up before.
void Connector::Room::take_attempt(const Packet& packet) {
    std::string why;
    if (c_.new_.admission().closed())
        return c_.datagrams_->send(refuse(packet, c_.self_, Refusal::kDevice), packet.from.port);
    c_.new_.claim(packet.from);
    Connection* connection = c_.peers_.current(packet.from);
    if (connection == nullptr) {
        bool waits = find_room(connection, packet.from, why);
        if (waits && take_room_of_attempt()) connection = c_.new_.make(packet.from, why, waits);
        if (connection == nullptr && waits && c_.new_.queue().size() < kMostRefusedPeers)
            connection = c_.new_.make_waiting(packet.from);
        if (connection != nullptr) c_.peers_.set_current(packet.from, *connection);
        if (connection != nullptr && !connection->qp) {
            connection->wait.for_peer = true;
            wait_here(*connection, why);
        }
    } else if (!connection->qp) {
        if (connection->peer.port.incomplete) connection->peer = packet.from;
        if (!equip(*connection, why) && !(take_room_of_attempt() && equip(*connection, why, true)))
            wait_here(*connection, why);
    }
    if (connection != nullptr && connection->qp)
        return c_.act(*connection, connection->handshake.receive(packet, c_.owner_.now()));
    c_.new_.release(packet.from);
    c_.datagrams_->send(refuse(packet, c_.self_, Refusal::kResources), packet.from.port);
    c_.new_.admission().on_wait(packet.from, why);
}

// Answering a peer succeeds, and an own attempt may not: many sides that all wait for one another
// would hold all that they have. True: an attempt has given way.
bool Connector::Room::take_room_of_attempt() {
    Connection* const attempt = c_.new_.connecting().unanswered();
    if (attempt == nullptr) return false;
    wait_again(*attempt);
    return true;
}

// The peer has not answered yet. The queue pair is another's; this side asks again in its turn.
void Connector::Room::wait_again(Connection& connection) {
    // An attempt after a refusal is not a wait for the room that was refused.
    Connection::Wait& wait = connection.wait;
    if (wait.since == 0)
        wait.since = std::max(wait.begun, wait.heard);
    else if (!wait.unanswered)
        wait.since = later(wait.since, c_.owner_.now() - wait.begun, c_.owner_.now());
    wait.unanswered = true;
    c_.new_.strip(connection);
    wait_here(connection, "the peer does not answer connection requests, and others wait for room",
              Status::kTimedOut);
}

// The peer computes, and will answer: the limit begins anew, as the handshake's does; but not if it
// refuses each attempt.
void Connector::Room::on_alive(Connection& connection) {
    Connection::Wait& wait = connection.wait;
    wait.heard = c_.owner_.now();
    if (wait.since == 0 || (!wait.unanswered && wait.interval != 0)) return;
    wait.since = wait.heard;
    wait.unanswered = false;
}

// A link or host that is down may come back, and the device may have room later.
void Connector::Room::on_not_connected(Connection& connection, int error) {
    const std::string why = std::string("cannot connect the queue pair: ") + strerror(error);
    const bool may_pass = verbs::may_lack_way(error);
    const Refusal refusal = may_pass ? Refusal::kResources : Refusal::kDevice;
    if (!may_pass || !c_.owner_.used(connection))
        return c_.fail(connection, Status::kDevice, why, refusal);
    const auto actions = connection.handshake.abandon(refusal);
    if (actions.send) c_.datagrams_->send(actions.packet, connection.peer.port);
    wait_for_peer(connection, Status::kDevice, why);
}

// When the connection has waited for long enough.
uint64_t Connector::Room::wait_limit(const Connection& connection) const {
    const bool brief = connection.wait.for_peer || connection.ending;
    const uint64_t most = brief ? c_.times_.disconnect_limit : c_.times_.connect_limit;
    return most > UINT64_MAX - connection.wait.since ? UINT64_MAX : connection.wait.since + most;
}

// For room on this side's device.
void Connector::Room::wait_here(Connection& connection, const std::string& why, Status status) {
    TERN_ASSERT(!connection.qp && !connection.failed);
    if (connection.wait.since == 0) connection.wait.since = c_.owner_.now();
    // Why the peer was asked in vain, not why this side waits between.
    if (!connection.wait.unanswered || status == Status::kTimedOut) {
        connection.wait.status = status;
        connection.why = why;
    }
    c_.new_.queue().add(connection);
    c_.new_.admission().on_wait(connection.peer, why);
    connection.wait.next = wait_limit(connection);
    c_.timers_.set(connection, connection.wait.next);
    wake_first();
}

// Meanwhile, its queue pair is another's. Those whom one peer refuses do not ask together.
void Connector::Room::wait_for_peer(Connection& connection, Status status, const std::string& why) {
    Connection::Wait& wait = connection.wait;
    const uint64_t now = c_.owner_.now();
    TERN_DEBUG("the attempt to connect to %s is repeated: %s", connection.peer.to_string().c_str(),
               why.c_str());
    c_.new_.strip(connection);
    // What counts is the time between attempts, not that in which a peer that computes was asked.
    wait.since = wait.since == 0 ? now : later(wait.since, now - wait.begun, now);
    wait.unanswered = false;
    wait.status = status;
    wait.interval = std::clamp(wait.interval * 2, kFirstRefused, kLastRefused);
    connection.why = why;
    const uint64_t share = connection.handshake.token() * uint64_t{0x9e3779b1} % 256;
    wait.next = std::min(now + wait.interval - wait.interval / 1024 * share,
                         std::max(wait_limit(connection), now));
    c_.timers_.set(connection, wait.next);
    wake_first();
}

// A peer that has not answered for a while may compute for long. If others wait for room, its queue
// pair is theirs, and this side asks it again when it is its turn. True: the connection waits now.
bool Connector::Room::give_way(Connection& connection, uint64_t now) {
    if (c_.new_.queue().empty() || connection.handshake.state() != Handshake::State::kConnecting ||
        now - connection.wait.begun < kRoomTurn)
        return false;
    wait_again(connection);
    c_.new_.queue().freed();
    wake_first();
    return true;
}

// Gives the connection a queue pair, if it is its turn, or `at_once`. False: there is no room.
bool Connector::Room::equip(Connection& connection, std::string& why, bool at_once) {
    RoomQueue& queue = c_.new_.queue();
    if (!at_once && !queue.may_try(&connection, c_.owner_.now())) {
        why = connection.why.empty() ? kOthersWait : connection.why;
        return false;
    }
    if (!c_.new_.equip(connection, why)) {
        queue.failed(c_.owner_.now());
        return false;
    }
    queue.remove(connection);
    queue.freed();
    wake_first();
    const bool wanted = !connection.wait.for_peer && !connection.ending;
    connection.handshake.want(wanted, c_.owner_.now());
    connection.wait.begun = c_.owner_.now();
    return true;
}

void Connector::Room::try_again(Connection& connection, uint64_t now) {
    if (c_.peers_.current(connection.peer) != &connection)
        return;  // it begins when that one is over
    // While other connections of this side may end, the wait for room goes on; but a dead peer is
    // told.
    if (!connection.wait.unanswered && c_.owner_.used(connection) &&
        c_.new_.queue().has(connection) && c_.table_.live() > c_.new_.queue().size() &&
        now >= wait_limit(connection))
        connection.wait.since = now;
    if (connection.wait.since != 0 && now >= wait_limit(connection))
        return c_.fail(
            connection,
            c_.owner_.used(connection) ? connection.wait.status : Status::kConnectionReset,
            connection.why);
    if (c_.former_.has_left(connection.peer))
        return c_.begin_handshake(connection, now);  // fails it
    std::string why;
    if (equip(connection, why))
        c_.begin_handshake(connection, now);
    else
        wait_here(connection, why);
}

void Connector::Room::wake_first() {
    Connection* const first = c_.new_.queue().first();
    if (first == nullptr) return;
    first->wait.next = std::min(c_.new_.queue().next(), wait_limit(*first));
    c_.timers_.set(*first, first->wait.next);
}

}  // namespace tern
