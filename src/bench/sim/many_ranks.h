// SPDX-License-Identifier: BSD-3-Clause
// Patterns of more than two ranks.
#pragma once

#include <cstdint>

#include "bench/sim/world.h"

namespace bench::sim {

// Each rank sends an 8-byte message to up to four ranks to which it is not connected. In ns, as
// all of these: of the rank that takes longest.
double storm(World& world);
// Messages of up to 7 ranks to one: bytes per ns.
double incast(World& world, uint32_t size);
// A ping-pong of ranks 0 and 1 while up to 64 other ranks, which rank 0 has not talked to, send
// messages of `size` bytes to rank 0 without end, which copies them.
struct Crowd {
    double median_ns = 0;  // of half of a round trip
    double percentile_99_ns = 0;
    double longest_ns = 0;  // also when the crowd has just begun
    double rate = 0;        // of the crowd's messages, in bytes per ns
    uint64_t rnr_naks = 0;  // how often one of them found no receive
};
Crowd crowd(World& world, uint32_t size);
// Of one exchange with the neighbours in a grid.
double halo(World& world, uint32_t dimensions, uint32_t size);
// Each rank sends a message to each other.
double all_to_all(World& world, uint32_t size);
// Each rank sends 16 messages to ranks that are chosen by chance, the same in each run.
double random_peers(World& world, uint32_t size);
// Windows of messages of rank 0 to each other rank, all at once, and of each second rank to the one
// behind it. All messages per ns, until all windows are answered.
double windows_to_all(World& world, uint32_t size);
double windows_of_pairs(World& world, uint32_t size);

}  // namespace bench::sim
