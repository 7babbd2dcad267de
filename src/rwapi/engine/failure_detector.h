// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>

#include "rwapi/engine/peers.h"

namespace rwapi {

// Probes peers, so that UCT reports the death of a peer to which nothing is sent.
class FailureDetector {
  public:
    FailureDetector(const Transport& transport, Peers& peers)
        : transport_(transport), peers_(peers) {}

    // Has UCT check a peer in use. An error that UCT finds later goes to
    // Peers::on_endpoint_error().
    void probe(Peer& peer);
    // Probes all peers if the last time was 200 ms ago.
    void probe_if_due();
    // For each progress: reads the clock in few of them.
    void on_progress() {
        if (++calls_ % kCallsPerClock == 0) probe_if_due();
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr uint32_t kCallsPerClock = 1024;

    const Transport& transport_;
    Peers& peers_;
    uint32_t calls_ = 0;
    Clock::time_point last_probe_{};
};

}  // namespace rwapi
