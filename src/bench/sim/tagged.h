// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages of UCP as MPI's benchmarks and programs send them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/sim/patterns.h"

namespace bench::sim {

// The command line of tern-sim has this instead of the number of ranks.
constexpr const char* kTagged = "tagged";

// Two ranks: the message rate as OSU's benchmark has it, windows of messages and an answer to each.
// More ranks: a halo of long messages in two dimensions, each rank with as much computation between
// its sends and its waits as can hide the messages.
std::vector<Value> measure_tagged(const std::string& transport, uint32_t ranks);

}  // namespace bench::sim
