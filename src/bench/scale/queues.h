// SPDX-License-Identifier: BSD-3-Clause
// The queues of the simulated process: how long they are by the transport's rules, and what mlx5's
// driver takes for them. Registered memory that does not depend on the peers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/connection/send_queue.h"
#include "tern/engine/settings.h"

namespace bench::scale {

class Queues {
  public:
    explicit Queues(const tern::EngineSettings& settings);

    // Makes a queue pair for a connection, and returns the places of its send queue.
    uint32_t make();
    void destroy(uint32_t places);

    // With the completion queue and what a process without peers has, in bytes.
    uint64_t bytes() const { return bytes_; }
    uint64_t most() const { return most_; }

    // Receive buffers, the first send buffers, datagrams.
    static size_t registered(const tern::EngineSettings& settings);

  private:
    uint64_t queue_pair(uint32_t places) const;
    void set_completions(uint64_t asked);

    const tern::EngineSettings settings_;
    tern::SendQueues lengths_;
    uint32_t places_ = 0;       // of all send queues
    uint64_t completions_ = 0;  // entries of the completion queue
    uint64_t bytes_ = 0;
    uint64_t most_ = 0;
};

}  // namespace bench::scale
