// SPDX-License-Identifier: BSD-3-Clause
// Long messages of UCP whose buffers were never used before, and the same with the buffers of the
// messages before them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/sim/patterns.h"

namespace bench::sim {

// The command line of tern-sim has this instead of the number of ranks.
constexpr const char* kFresh = "fresh";

constexpr uint64_t kFreshSizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

// Of each size, in us. Two ranks: half of a round trip of tagged messages, and a put and a get with
// registered memory of the target, each until it is complete. More ranks: tagged messages of each
// rank of a ring to the next one, all at once.
std::vector<Value> measure_fresh(const std::string& transport, uint32_t ranks);

}  // namespace bench::sim
