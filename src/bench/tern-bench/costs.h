// SPDX-License-Identifier: BSD-3-Clause
// The costs of long messages on this device.
#pragma once

#include <string>
#include <vector>

#include "bench/tern-bench/command.h"
#include "rendezvous/cost_model.h"

namespace bench {

// The parameters of the cost model for this device, and the figures from which they are calculated.
struct MeasuredCosts {
    tern::Costs costs;
    std::vector<Figure> figures;
};

// Throws Failure.
MeasuredCosts measure_costs(const Options& options, const Setup& setup);

// A line: "latency 2.3 us, ...".
std::string costs_text(const tern::Costs& costs);

}  // namespace bench
