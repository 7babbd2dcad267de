// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/failure_detector.h"

namespace rwapi {
namespace {

constexpr auto kProbeInterval = std::chrono::milliseconds(200);
constexpr auto kFirstAsk = std::chrono::seconds(2);
constexpr unsigned kMostDoublings = 5;  // of the time to the next one: 64 s

}  // namespace

void FailureDetector::probe(Peer& peer) {
    if (peer.failed) return;
    const Connection& connection = peer.connection;
    ucs_status_t status = UCS_OK;
    if (peer.state == PeerState::kReady && transport_.can_check())
        status = uct_ep_check(connection.endpoint.get(), 0, nullptr);
    else if (peer.state == PeerState::kWireup && connection.wireup_endpoint &&
             transport_.can_check_wireup())
        status = uct_ep_check(connection.wireup_endpoint.get(), 0, nullptr);
    if (status < 0 && status != UCS_ERR_NO_RESOURCE) peers_.mark_failed(peer, status);
}

// A launcher that fails says nothing about the peer.
void FailureDetector::ask_for(Peer& peer, Clock::time_point now) {
    Connection& connection = peer.connection;
    if (!bootstrap_.tells_ends() || peer.failed || peer.heard || !connection.address_known) return;
    const Clock::time_point due = connection.ask_at;
    if (now < due) return;
    connection.ask_at = now + kFirstAsk * (1u << connection.asked);
    if (due == Clock::time_point()) return;  // it has only just been used
    if (connection.asked < kMostDoublings) ++connection.asked;
    std::vector<std::byte> published;
    if (bootstrap_.lookup(peer.node, published) == RWAPI_ERR_PEER)
        peers_.mark_failed(peer, UCS_ERR_UNREACHABLE);
}

void FailureDetector::probe_if_due() {
    const Clock::time_point now = Clock::now();
    if (now - last_probe_ < kProbeInterval) return;
    last_probe_ = now;
    all_.round(peers_.in_use(), kProbes, [&](size_t i) {
        probe(peers_.in_use(i));
        ask_for(peers_.in_use(i), now);
    });
    waiting_.round(peers_.with_work(), kProbes, [this](size_t i) { probe(peers_.with_work(i)); });
}

}  // namespace rwapi
