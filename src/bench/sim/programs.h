// SPDX-License-Identifier: BSD-3-Clause
// What a simulated rank does in a pattern. Programs write how long they took, in ns, to `took`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/sim/node.h"
#include "bench/sim/program.h"

namespace bench::sim {

// One side of a ping-pong, which rank 0 begins.
Program ping(Node& me, uint32_t peer, uint32_t size, uint32_t trips, uint64_t& took);

// The median of `rounds` times, of a pattern in which a block may be registered in any round: that
// is paid once.
template <typename Round>
double median_time(int rounds, Round&& round) {
    std::vector<double> times(static_cast<size_t>(rounds));
    std::ranges::generate(times, round);
    const auto median = times.begin() + rounds / 2;
    std::ranges::nth_element(times, median);
    return *median;
}

Program send_stream(Node& me, uint32_t peer, uint32_t size, uint32_t messages);
Program receive(Node& me, uint64_t messages, uint64_t& took);
// Sends so many, and computes. `sent` gets when the last one was sent, from the begin.
Program send_burst(Node& me, uint32_t peer, uint32_t size, uint32_t messages, uint64_t work,
                   uint64_t& sent);

constexpr uint32_t kWindow = 64;  // messages, after which their sender waits for an answer
// Windows to each peer, all at once. As in MPI's benchmarks, the sender polls when it can send no
// more.
Program send_windows(Node& me, std::vector<uint32_t> peers, uint32_t size, uint32_t windows,
                     uint64_t& took);
Program answer_windows(Node& me, uint32_t peer, uint32_t windows);

// Node::put() or Node::get().
using Access = bool (Node::*)(uint32_t peer, uint64_t size);
// Puts or gets, and work of the processor in ns before it waits for them.
Program access_stream(Node& me, Access access, uint32_t peer, uint64_t size, uint32_t times,
                      uint64_t work, uint64_t& took);

// Does nothing, but its interface does.
Program idle(Node& me);

// Sends to each other rank, the next one first.
Program exchange(Node& me, uint32_t ranks, uint32_t size, uint64_t& took);
// So many times: sends to each neighbour, and waits for what each has sent as often.
Program exchange_faces(Node& me, std::vector<uint32_t> neighbours, uint32_t size, uint32_t times,
                       uint64_t& took);
// A ping-pong, at whose end this side sets `over`. `took` gets the time of each trip.
Program timed_ping(Node& me, uint32_t peer, uint32_t size, uint32_t trips, bool& over,
                   std::vector<uint64_t>& took);
Program answer_until(Node& me, uint32_t peer, uint32_t size, const bool& over);
// Sends until `over`.
Program send_until(Node& me, uint32_t peer, uint32_t size, const bool& over);
// Sends to each peer, and waits for so many messages from anybody.
Program scatter(Node& me, std::vector<uint32_t> peers, uint32_t size, uint64_t expected,
                uint64_t& took);

}  // namespace bench::sim
