// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rwapi/core/turns.h"
#include "rwapi/engine/peers.h"

namespace rwapi {

// Probes peers, so that UCT reports the death of a peer to which nothing is sent.
class FailureDetector {
  public:
    FailureDetector(const Transport& transport, Peers& peers)
        : transport_(transport), peers_(peers) {}

    // Has UCT check a peer in use. An error that UCT finds later goes to
    // Peers::on_endpoint_error().
    void probe(Peer& peer) {
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
    // If the last time was 200 ms ago: probes a few of the peers in turn, and a few of those for
    // which operations wait, so that the probes do not grow with the peers.
    void probe_if_due() {
        const Clock::time_point now = Clock::now();
        if (now - last_probe_ < kProbeInterval) return;
        last_probe_ = now;
        all_.round(peers_.in_use(), kProbes, [this](size_t i) { probe(peers_.in_use(i)); });
        waiting_.round(peers_.with_work(), kProbes,
                       [this](size_t i) { probe(peers_.with_work(i)); });
    }
    // For each progress: reads the clock in few of them.
    void on_progress() {
        if (++calls_ % kCallsPerClock == 0) probe_if_due();
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr uint32_t kCallsPerClock = 1024;
    static constexpr auto kProbeInterval = std::chrono::milliseconds(200);
    static constexpr size_t kProbes = 16;  // of each kind, at a time

    const Transport& transport_;
    Peers& peers_;
    uint32_t calls_ = 0;
    Clock::time_point last_probe_{};
    Turns all_, waiting_;
};

}  // namespace rwapi
