// SPDX-License-Identifier: BSD-3-Clause
// What simulated ranks do, and what is measured of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/sim/value.h"
#include "bench/sim/world.h"

namespace bench::sim {

// Of UCT's active messages and puts between two ranks, and of `ranks` ranks.
std::vector<Value> measure(const std::string& transport, uint32_t ranks);

}  // namespace bench::sim
