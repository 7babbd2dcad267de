// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/failure_detector.h"

namespace rwapi {
namespace {

constexpr auto kProbeInterval = std::chrono::milliseconds(200);

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

void FailureDetector::probe_if_due() {
    const Clock::time_point now = Clock::now();
    if (now - last_probe_ < kProbeInterval) return;
    last_probe_ = now;
    all_.round(peers_.in_use(), kProbes, [this](size_t i) { probe(peers_.in_use(i)); });
    waiting_.round(peers_.with_work(), kProbes, [this](size_t i) { probe(peers_.with_work(i)); });
}

}  // namespace rwapi
