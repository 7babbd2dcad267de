// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "bench/tern-bench/figure.h"
#include "bench/tern-bench/options.h"
#include "bench/tern-bench/pair.h"

namespace bench {

struct Result {
    std::vector<Figure> figures;
    std::string x_label;     // of a plot
    std::string notes;       // what a reader must know besides
    bool matrix = false;     // as_matrix(), not as_table(); a plot with a linear y axis
    std::string table = {};  // instead of both
};

// The commands. They throw Failure.
Result run_latency(const Options& options, const Setup& setup);
Result run_rate(const Options& options, const Setup& setup);
Result run_bandwidth(const Options& options, const Setup& setup);
Result run_pinning(const Options& options, const Setup& setup);
Result run_overlap(const Options& options, const Setup& setup);
Result run_tune(const Options& options, const Setup& setup);
Result run_memory(const Options& options, const Setup& setup);
Result run_fastpath(const Options& options);

constexpr const char* kCommands =
    "latency, rate, bandwidth, pinning, overlap, tune, memory, fastpath";

}  // namespace bench
