// SPDX-License-Identifier: BSD-3-Clause
// What a process takes of the device, by the numbers of its peers and of its hot peers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/sim/patterns.h"

namespace bench::sim {

constexpr const char* kMemoryPattern = "memory";

// Stages in the life of a process with peers.
enum Stage { kIdle, kTalked, kHot, kHotLong, kStages };
// What is counted at each.
enum Count { kRegistered, kQueues, kPairs, kCounts };

// Rank 0 is the process, with `ranks` - 1 peers, of which it goes on to talk with `hot`. The test
// of a value is its stage, the unit its count.
std::vector<Value> count_memory(const std::string& transport, uint32_t ranks, uint32_t hot);

}  // namespace bench::sim
