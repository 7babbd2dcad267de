// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "bench/measure/device.h"
#include "bench/measure/peer.h"
#include "bench/measure/statistics.h"
#include "bench/tern-bench/arm.h"

namespace bench {

// One end of the connection that a worker measures over. Both workers of a pair make one at the
// same time, and call the same of it.
class Port {
  public:
    virtual ~Port() = default;

    // Carries out an order. Latency: half round trips in us. Streams: us from message to message,
    // one sample a burst. Empty in the worker that answers, and in both if it cannot be done with
    // messages of that size.
    virtual Samples run(const Order& order) = 0;
};

// Throw Failure. `device` is a UCX name: device:port.
std::unique_ptr<Port> open_raw_port(Peer& peer, const std::string& memory,
                                    const std::string& device, int gid_index);
std::unique_ptr<Port> open_uct_port(Peer& peer, const std::string& transport,
                                    const std::string& device);
std::unique_ptr<Port> open_ucp_port(Peer& peer);
// Long messages by verbs; `protocol`: see arms.h.
std::unique_ptr<Port> open_large_port(Peer& peer, const std::string& protocol,
                                      const std::string& device, int gid_index);
// What the costs of long messages are made of.
std::unique_ptr<Port> open_probe_port(Peer& peer, const std::string& memory,
                                      const std::string& device, int gid_index);

}  // namespace bench
