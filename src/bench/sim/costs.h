// SPDX-License-Identifier: BSD-3-Clause
// What the processor of a simulated rank needs for each thing that it does. All numbers of the
// simulation that are not the adapter's are here, and are printed with its results.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace bench::sim {

// Of the processor's time-stamp counter.
constexpr double kGigahertz = 3.0;
// Instructions that the processor executes in a ns: assumed, two in each cycle of 3 GHz. No source
// of a profile names its host's processor with what it executes in a cycle, so that it is an input
// of simulations: from one to three in a cycle.
constexpr uint32_t kInstructionRates[] = {3, 6, 9};
constexpr uint32_t kInstructionRate = 6;  // the default
inline uint32_t instruction_rate = kInstructionRate;

inline uint64_t ns_of(double instructions) {
    return static_cast<uint64_t>(std::llround(instructions / instruction_rate));
}

// Calls of verbs, in ns: what the library of the adapter needs. All transports need the same.
struct VerbsCosts {
    uint64_t post = 40;        // a call that posts: the doorbell (UCX's model of mlx5)
    uint64_t request = 75;     // each work request of it (UCX's model of rc_verbs)
    uint64_t block = 20;       // each block of 64 bytes after its first one: assumed
    uint64_t receive = 20;     // each receive that is posted: assumed
    uint64_t poll = 10;        // a call that polls a completion queue: assumed
    uint64_t completion = 20;  // each completion that it takes (UCX's model)
};

// A block is one more write to the adapter. No source has its time, so that it is an input: from
// nothing to that of a doorbell, which is such a write, too.
constexpr uint64_t kMostBlock = VerbsCosts().post;

// A call that reads the clock, in ns.
constexpr uint64_t kReadClock = 25;

// A lock that is free, in ns.
constexpr uint64_t kLock = 7;

// Copies by the processor, in bytes per ns: assumed, so that it is an input of simulations.
constexpr uint32_t kCopyBandwidths[] = {6, 10, 20};
constexpr uint32_t kCopyBandwidth = 10;  // the default
constexpr uint64_t copy_ns(uint64_t bytes, uint32_t bandwidth) {
    return bytes / bandwidth + (bytes % bandwidth != 0);
}

// What a poll needs besides, for what it finds.
struct Taking {
    double first;
    double further;  // each
    double of(uint64_t count) const {
        return count == 0 ? 0 : first + static_cast<double>(count - 1) * further;
    }
};

// A transport's own instructions, without those of verbs, of the C library and of the device, as
// callgrind counts them. Tern's are sums and differences of those in
// test/tern/instructions/limits.txt: test/bench/unit/costs_test.cc compares them. Those of rc_verbs
// were counted in UCX 1.13's libuct_ib.so: for 2700 messages of a stream, and for the polls of it
// and of a ping-pong; for 4000 messages of 200 bytes that it copies. Of it, a message that is alone
// in a poll needs about as much as one of many.
//
// UCX's rc_mlx5 and dc_mlx5 need a device of mlx5, so they are modelled: the code of rc_verbs runs,
// with UCX's own constants for what differs. A request: the overhead of both, 40 ns, where rc_verbs
// has 75 (uct_rc_mlx5_iface_common_query() in UCX 1.13's src/uct/ib/rc/accel/rc_mlx5_common.c).
// dc_mlx5: NUM_DCI, and 60 ns of "connect packet + cqe" (uct_dc_mlx5_iface_query() in
// src/uct/ib/dc/dc_mlx5.c).
struct TransportCosts {
    std::string_view name;
    double send;       // a short active message, or a put
    double copy;       // an active message that UCT copies
    Taking receive;    // messages
    double poll;       // a poll that does not look at the completion queue
    double full_poll;  // one that does
    uint64_t request = VerbsCosts().request;
    std::string_view runs = {};  // the transport that runs, if it is modelled
    uint32_t initiators = 0;     // 0: each peer has a queue pair
    uint64_t connect_ns = 0;     // an initiator gets another peer
    // A message that goes with others: a short one of 8 bytes, each byte more, and one that UCT
    // copies; and a lock.
    double append = 0, append_byte = 0, append_copy = 0;
    uint64_t append_ns(uint64_t bytes, bool is_short) const {
        const double more = bytes > 8 ? static_cast<double>(bytes - 8) : 0;
        return ns_of(is_short ? append + more * append_byte : append_copy) + kLock;
    }
    // What messages that UCT copies need more than short ones.
    uint64_t copied_ns(uint64_t messages) const {
        return ns_of(static_cast<double>(messages) * (copy - send));
    }
    constexpr bool is_modelled() const { return !runs.empty(); }
};
constexpr std::array<TransportCosts, 4> kTransports = {{
    {.name = "tern",
     .send = 82,
     .copy = 155,
     .receive = {236, 50.1},
     .poll = 39,
     .full_poll = 101,
     .append = 71,
     .append_byte = 0.34,
     .append_copy = 179},
    {"rc_verbs", 96, 126, {59, 59}, 61, 61},
    {"rc_mlx5", 96, 126, {59, 59}, 61, 61, 40, "rc_verbs"},
    {"dc_mlx5", 96, 126, {59, 59}, 61, 61, 40, "rc_verbs", 8, 60},
}};

inline const TransportCosts& costs_of(std::string_view transport) {
    for (const TransportCosts& costs : kTransports)
        if (costs.name == transport) return costs;
    return kTransports[1];
}
// The transport whose code runs.
inline std::string running(std::string_view transport) {
    const TransportCosts& costs = costs_of(transport);
    return std::string(costs.is_modelled() ? costs.runs : transport);
}

inline VerbsCosts verbs_of(const TransportCosts& costs) {
    VerbsCosts verbs;
    verbs.request = costs.request;
    return verbs;
}
// The costs of verbs where other layers than this program call the transport: its instructions for
// a send count for each work request.
inline VerbsCosts verbs_below(const TransportCosts& costs) {
    VerbsCosts verbs = verbs_of(costs);
    verbs.request += ns_of(costs.send);
    return verbs;
}

// UCP's instructions, which are added to those of the transport. Counted by callgrind in
// UCX 1.13's libucp.so, for messages of 8 bytes to itself whose receives are posted before.
struct UcpCosts {
    uint64_t most_short = 104;  // bytes of a message that UCT does not copy, with UCP's header
    double send = 70;           // a call that sends
    double receive = 202;       // a call that posts a receive
    double message = 142;       // each message that a transport hands over
    double ended = 39;          // a request is found to have ended, and given back
    double progress = 36;       // a call that progresses the worker
    double put = 156;           // ucp_put_nbx
    double fence = 217;         // ucp_worker_fence, with the transport's
};
constexpr UcpCosts kUcp;

// Instructions of rwapi's calls on Tern: those of librwapi and of Tern together, from
// test/tern/instructions/limits.txt as well. Up to most_copied, a notified write is copied, and
// needs no operation.
struct RwapiCosts {
    uint32_t most_short = 128;  // bytes of a write that UCT takes at once (Tunables::tx_min_inline)
    uint32_t most_copied = 1024;
    double write = 141;  // rwapi_put
    double write_long = 1040;
    double notify = 211;  // rwapi_put_notify, rwapi_put_signal; all repeat others
    double notify_copied = 605;
    double notify_long = 1231;
    double set = 232;        // rwapi_put_signal to memory with RWAPI_POLLED, behind the data
    double set_apart = 230;  // elsewhere
    double set_copied = 516;
    double set_long = 1147;
    Taking take = {285, 96.1};  // notifications
    Taking take_signal = {273, 98};
    double poll = 91;  // rwapi_progress that finds nothing
    double look = 20;  // rwapi_notify_reset that finds nothing
};
constexpr RwapiCosts kRwapi;

}  // namespace bench::sim
