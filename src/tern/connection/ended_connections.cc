// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/ended_connections.h"

#include <algorithm>
#include <utility>

#include "common/make_room.h"
#include "tern/base/tunables.h"

namespace tern {

void EndedConnections::make_room() {
    base::make_room(over_, table_.size() + 1);
}

void EndedConnections::add_all() {
    if (destroying_) return;  // destroy() has the list
    over_.clear();
    table_.for_each([this](Connection& connection) { over_.push_back(&connection); });
    alarm_.set_ended(!over_.empty());
}

void EndedConnections::on_left(const PeerAddress& peer) {
    for (Connection* const connection : over_)
        if (connection->status == Status::kTimedOut && connection->established &&
            connection->peer.has_interface_of(peer))
            connection->status = Status::kConnectionReset;
}

void EndedConnections::retire(verbs::QueuePair qp, bool reported) {
    retired_.add(std::move(qp), reported, owner_.now());
    alarm_.set(retired_.deadline());
}

// The device's queue may be longer than what is accounted for, so there may be no room yet.
void EndedConnections::mark(Connection& connection) {
    if (!connection.to_mark || connection.sends.room() == 0) return;
    connection.to_mark = false;
    owner_.post_marker(connection);
}

bool EndedConnections::may_go(Connection& connection) {
    mark(connection);
    const auto& named = connection.handshake.peer_sent();
    const bool idle = !connection.to_mark && connection.sends.idle() && connection.holds == 0;
    if (connection.hearing.look(idle, !named || owner_.has_taken(connection, *named), rounds_,
                                owner_.now()))
        return true;
    if (!connection.sends.idle() && !connection.sends.last_is_signaled())
        owner_.post_marker(connection);
    return false;
}

unsigned EndedConnections::destroy(const std::function<void(const PeerAddress&)>& gone) {
    ++rounds_;
    if (!retired_.empty() && retired_.on_round()) room_ = true;
    if (over_.empty()) return 0;
    const struct Destroying {
        explicit Destroying(bool& flag) : destroying(flag) { destroying = true; }
        ~Destroying() { destroying = false; }
        bool& destroying;
    } destroying(destroying_);
    unsigned count = 0;
    // closed() may end further connections, which are then looked at by the next call.
    for (size_t left = std::min(kEndedLooks, over_.size()); left != 0; --left) {
        if (at_ >= over_.size()) at_ = 0;
        Connection* const connection = over_[at_];
        if (!may_go(*connection)) {
            ++at_;
            continue;
        }
        over_[at_] = over_.back();
        over_.pop_back();
        // Operations that wait for a connection that was never up must fail.
        const bool waited_for = !connection->established && owner_.wanted(*connection);
        if (!waited_for) connection->status = connection->outcome();
        owner_.closed(*connection, connection->status, connection->why);
        gone(connection->peer);
        table_.unindex(*connection);
        if (connection->qp) retire(std::move(connection->qp), connection->last_receive);
        table_.destroy(*connection);
        ++count;
    }
    alarm_.set_ended(!over_.empty());
    return count;
}

bool EndedConnections::may_destroy() const {
    if (retired_.need_rounds()) return true;
    return std::any_of(over_.begin(), over_.end(), [](const Connection* connection) {
        const bool idle = connection->sends.idle();
        return connection->hearing.wants_look(idle && connection->holds == 0) ||
               (connection->to_mark && connection->sends.room() != 0) ||
               (!idle && !connection->sends.last_is_signaled());
    });
}

}  // namespace tern
