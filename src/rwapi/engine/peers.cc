// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/peers.h"

#include <algorithm>

#include "common/make_room.h"
#include "rwapi/base/log.h"

namespace rwapi {
namespace {

size_t pack_parts(void* to, void* from) {
    auto* const begin = static_cast<std::byte*>(to);
    std::byte* end = begin;
    for (const auto& part : *static_cast<const Peers::Parts*>(from))
        end = std::ranges::copy(part, end).out;
    return static_cast<size_t>(end - begin);
}

}  // namespace

Peer& Peers::at(uint32_t node) {
    TERN_ASSERT(node < self_.size);
    std::unique_ptr<Peer>& peer = peers_[node];
    if (!peer) {
        tern::base::make_room(in_use_, peers_.size());
        peer = std::make_unique<Peer>();
        peer->node = node;
        peer->receiver.open(self_.credit);
        in_use_.push_back(peer.get());
    }
    return *peer;
}

Peer* Peers::find(uint32_t node) const {
    const auto found = peers_.find(node);
    return found != peers_.end() ? found->second.get() : nullptr;
}

void Peers::report_dropped(uint32_t node, const char* what) {
    Peer& peer = at(node);
    if (peer.reported) return;
    peer.reported = true;
    log_error("node %u sent %s; this message is dropped, and later ones without a line here", node,
              what);
}

bool Peers::send(Peer& peer, MessageId id, uint16_t credit, const void* body, unsigned length) {
    const Header header{self_.rank, credit, 0, 0};
    const ucs_status_t status =
        uct_ep_am_short(peer.connection.endpoint.get(), id, header.pack(), body, length);
    if (status == UCS_ERR_NO_RESOURCE) return false;
    if (status != UCS_OK) mark_failed(peer, status);
    return true;
}

bool Peers::send_long(Peer& peer, MessageId id, Parts parts) {
    const ssize_t sent = uct_ep_am_bcopy(peer.connection.endpoint.get(), id, pack_parts, &parts, 0);
    if (sent == UCS_ERR_NO_RESOURCE) return false;
    if (sent < 0) mark_failed(peer, static_cast<ucs_status_t>(sent));
    return true;
}

void Peers::add_work(Peer& peer) {
    if (peer.has_work) return;
    peer.has_work = true;
    with_work_.push_back(&peer);
    sleeper_.wake();
}

bool Peers::has_own_work() const {
    return std::ranges::any_of(with_work_, [](const Peer* peer) { return !peer->awaits_event(); });
}

void Peers::mark_failed(Peer& peer, ucs_status_t status) {
    if (peer.failed) return;
    log_debug("node %u: failed in state %d: %s", peer.node, static_cast<int>(peer.state),
              ucs_status_string(status));
    if (!peer.left) ++gone_;
    peer.fail();
    peer.failure = status;
    any_failed_ = true;
    failed_.push_back(&peer);
}

void Peers::on_left(Peer& peer) {
    if (peer.left || peer.failed) return;
    log_debug("node %u: leaves", peer.node);
    peer.left = true;
    ++gone_;
}

ucs_status_t Peers::on_endpoint_error(void* peers, uct_ep_h endpoint, ucs_status_t status) {
    Peers& self = *static_cast<Peers*>(peers);
    for (const auto& [node, peer] : self.peers_) {
        const Connection& connection = peer->connection;
        const bool is_main = connection.endpoint.get() == endpoint;
        if (!is_main && connection.wireup_endpoint.get() != endpoint) continue;
        // The wireup endpoint is not needed any more in state kReady.
        if (is_main || peer->state != PeerState::kReady) self.mark_failed(*peer, status);
        break;
    }
    return UCS_OK;
}

Peer* Peers::take_failed() {
    if (failed_.empty()) return nullptr;
    Peer* const peer = failed_.back();
    failed_.pop_back();
    TERN_ASSERT(peer->failed && peer->state != PeerState::kDead);
    return peer;
}

void Peers::close_endpoints() {
    for (const auto& [node, peer] : peers_) {
        peer->connection.endpoint.reset();
        peer->connection.wireup_endpoint.reset();
    }
}

}  // namespace rwapi
