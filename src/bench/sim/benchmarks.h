// SPDX-License-Identifier: BSD-3-Clause
// The benchmarks of Ben Fredj and Renault, "RWAPI over InfiniBand: Design and Performance", section
// 6, between two ranks in virtual time. Times are t / n, n messages in the time t, counted in both
// directions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/sim/patterns.h"

namespace bench::sim {

// How a message goes from one side to the other.
enum class Way : uint8_t {
    kWrite,      // RDMA write; the target waits for the end of the data
    kChain,      // the same, and a write of a word that the target waits for, by one call
    kImmediate,  // a write with immediate data; the target waits for the completion
    kWriteUc,    // kWrite over an unreliable connection
    kSend,       // a send, reliable; the target waits for the completion
    kSendUd,     // the same as an unreliable datagram
    kPlain,      // rwapi_write; the target waits for the end of the data
    kNotify,     // rwapi_put_notify
    kSignal,     // rwapi_put_signal
    kPolled,     // the same with RWAPI_POLLED
    kBehind,     // the same, with the word behind the data
    kTagged,     // ucp_tag_send_nbx and ucp_tag_recv_nbx
    kOpenShmem,  // what shmem_putmem, shmem_fence and shmem_put64 call of UCP
};

// A way in a simulation of its own.
struct Arm {
    const char* simulation;  // "verbs", "rwapi", or a transport: UCP over it
    Way way;
    const char* name;
    uint32_t least = 1;  // bytes of a message
    uint32_t most = UINT32_MAX;
};

constexpr const char* kWriteName = "RDMA write";
constexpr Arm kArms[] = {
    {"verbs", Way::kWrite, kWriteName},
    {"verbs", Way::kChain, "in a chain"},
    {"verbs", Way::kImmediate, "with immediate data"},
    {"verbs", Way::kWriteUc, "RDMA write, UC"},
    {"verbs", Way::kSend, "send"},
    {"verbs", Way::kSendUd, "send, UD", 1, 4 << 10},
    {"rwapi", Way::kPlain, "rwapi_write"},
    {"rwapi", Way::kNotify, "notified"},
    {"rwapi", Way::kSignal, "signal"},
    {"rwapi", Way::kPolled, "polled"},
    {"rwapi", Way::kBehind, "polled, behind the data", 8},
    {"tern", Way::kTagged, "UCP's messages, tern"},
    {"rc_verbs", Way::kTagged, "UCP's messages, rc_verbs"},
    {"tern", Way::kOpenShmem, "OpenSHMEM's calls, tern"},
    {"rc_verbs", Way::kOpenShmem, "OpenSHMEM's calls, rc_verbs"},
    {"rc_mlx5", Way::kTagged, "UCP's messages, rc_mlx5, modelled"},
    {"rc_mlx5", Way::kOpenShmem, "OpenSHMEM's calls, rc_mlx5, modelled"},
};

// Those without UCP.
constexpr const char* kSimulations[] = {"verbs", "rwapi"};
// The command line of tern-sim has this instead of the number of ranks.
constexpr const char* kBenchmarks = "benchmarks";

// Bytes of a message, by default and at most: less than 8, or a multiple of 8.
constexpr uint32_t kBenchmarkSizes[] = {1,    8,    64,      256,     1024,    2048,
                                        4096, 8192, 1 << 14, 1 << 16, 1 << 18, 1 << 20};
constexpr uint64_t kLongestMessage = 1 << 20;

// All results of a simulation, in the order of tests, sizes and arms.
std::vector<Value> run_benchmarks(const std::string& simulation,
                                  const std::vector<uint32_t>& sizes);

}  // namespace bench::sim
