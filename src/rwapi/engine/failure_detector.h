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
    void probe(Peer& peer);
    // If the last time was 200 ms ago: probes a few of the peers in turn, and a few of those for
    // which operations wait, so that the probes do not grow with the peers.
    void probe_if_due();
    // For each progress: reads the clock in few of them.
    void on_progress() {
        if (++calls_ % kCallsPerClock == 0) probe_if_due();
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr uint32_t kCallsPerClock = 1024;
    static constexpr size_t kProbes = 16;  // of each kind, at a time

    const Transport& transport_;
    Peers& peers_;
    uint32_t calls_ = 0;
    Clock::time_point last_probe_{};
    Turns all_, waiting_;
};

}  // namespace rwapi
