// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "rendezvous/cost_model.h"
#include "tools/tern_bench/figure.h"
#include "tools/tern_bench/options.h"
#include "tools/tern_bench/pair.h"

namespace tern::bench {

// What the cost model needs to know, measured on this device, and what it was taken from.
struct MeasuredCosts {
    Costs costs;
    std::vector<Figure> figures;
};

// Throws measure::Failure.
MeasuredCosts measure_costs(const Options& options, const Setup& setup);

// "latency 2.3 us, ...", a line.
std::string costs_text(const Costs& costs);

}  // namespace tern::bench
