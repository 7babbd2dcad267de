// SPDX-License-Identifier: BSD-3-Clause
// What the processor of a simulated rank needs for each thing that it does. All numbers of the
// simulation that are not the adapter's are here, and are printed with its results.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace bench::sim {

// The processor: instructions take ns = instructions / (kPerCycle * kGigahertz).
constexpr double kGigahertz = 3.0;
constexpr double kPerCycle = 2.0;

inline uint64_t ns_of(double instructions) {
    return static_cast<uint64_t>(std::llround(instructions / (kPerCycle * kGigahertz)));
}

// Calls of verbs, in ns: what the library of the adapter needs. All transports need the same.
struct VerbsCosts {
    uint64_t post = 40;        // a call that posts: the doorbell (UCX's model of mlx5)
    uint64_t request = 75;     // each work request of it (UCX's model of rc_verbs)
    uint64_t receive = 20;     // each receive that is posted: assumed
    uint64_t poll = 10;        // a call that polls a completion queue: assumed
    uint64_t completion = 20;  // each completion that it takes (UCX's model)
};

// A call that reads the clock, in ns.
constexpr uint64_t kReadClock = 25;

// A copy by the processor, in bytes per ns: assumed.
constexpr double kCopyBandwidth = 10;
constexpr uint64_t copy_ns(uint64_t bytes) {
    return static_cast<uint64_t>(std::ceil(static_cast<double>(bytes) / kCopyBandwidth));
}

// A transport's own instructions, without those of verbs, of the C library and of the device, as
// callgrind counts them. Tern's are those of test/instructions/limits.txt. Those of rc_verbs were
// counted in UCX 1.13's libuct_ib.so: for 2700 messages of a stream, and for the polls of it and of
// a ping-pong.
struct TransportCosts {
    std::string_view name;
    double send;       // a short active message, or a put
    double receive;    // each message that a poll takes
    double poll;       // a poll that does not look at the completion queue
    double full_poll;  // one that does
};
constexpr std::array<TransportCosts, 2> kTransports = {{
    {"tern", 81, 88.6, 42, 107},
    {"rc_verbs", 96, 59, 61, 61},
}};

// UCP's instructions, which replays add to those of the transport. Counted by callgrind in
// UCX 1.13's libucp.so, for messages of 8 bytes to itself whose receives are posted before.
struct UcpCosts {
    double send = 70;      // a call that sends
    double receive = 202;  // a call that posts a receive
    double message = 142;  // each message that a transport hands over
    double ended = 39;     // a request is found to have ended, and given back
    double progress = 36;  // a call that progresses the worker
};
constexpr UcpCosts kUcp;

}  // namespace bench::sim
