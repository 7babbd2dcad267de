// SPDX-License-Identifier: BSD-3-Clause
// What is measured of simulated ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench::sim {

// A result. Exact: the same in each run.
struct Value {
    std::string test;
    double x;  // bytes of a message
    std::string unit;
    double value;
    std::string name = {};  // of what is compared; empty: the transport
};

// Their names, in the order in which they run.
constexpr const char* kPatterns[] = {"ping-pong", "stream",  "puts",  "gets",         "overlap",
                                     "storm",     "incast",  "halo",  "all-to-all",   "random",
                                     "crowd",     "windows", "pairs", "last-of-burst"};

// Of the patterns with these names: UCT's active messages, puts and gets between two ranks, and
// messages of `ranks` ranks, of which so many share a port.
std::vector<Value> measure(const std::string& transport, uint32_t ranks, uint32_t per_port,
                           const std::vector<std::string>& patterns);

// Tagged messages of UCP as MPI's benchmarks and programs send them.

// The command line of tern-sim has this instead of the number of ranks.
constexpr const char* kTaggedRanks = "tagged";

// Two ranks: the message rate as OSU's benchmark has it, windows of messages and an answer to each.
// More ranks: a halo of long messages in two dimensions, each rank with as much computation between
// its sends and its waits as can hide the messages.
std::vector<Value> measure_tagged(const std::string& transport, uint32_t ranks);

// Long messages of UCP whose buffers were never used before, and the same with the buffers of the
// messages before them.

// The command line of tern-sim has this instead of the number of ranks.
constexpr const char* kFreshRanks = "fresh";

constexpr uint64_t kFreshSizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

// Of each size, in us. Two ranks: half of a round trip of tagged messages, and a put and a get with
// registered memory of the target, each until it is complete. More ranks: tagged messages of each
// rank of a ring to the next one, all at once.
std::vector<Value> measure_fresh(const std::string& transport, uint32_t ranks);

// What a process takes of the device, by the numbers of its peers and of its hot peers.

constexpr const char* kMemoryPattern = "memory";

// Stages in the life of a process with peers.
enum Stage { kIdle, kTalked, kHot, kHotLong, kStages };
// What is counted at each.
enum Count { kRegistered, kQueues, kPairs, kCounts };

// Rank 0 is the process, with `ranks` - 1 peers, of which it goes on to talk with `hot`. The test
// of a value is its stage, the unit its count.
std::vector<Value> count_memory(const std::string& transport, uint32_t ranks, uint32_t hot);

}  // namespace bench::sim
