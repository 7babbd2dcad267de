// SPDX-License-Identifier: BSD-3-Clause
// What the commands `tern-bench sim`, `replay` and `memory` share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/report/figure.h"
#include "bench/series/options.h"
#include "bench/series/process.h"
#include "bench/sim/patterns.h"
#include "common/command.h"

namespace bench::sim {

// A model of the software HCA.
struct Adapter {
    std::string profile = "graphene";
    std::string model;
    uint32_t slow = 1;  // how many times as slow as modeled the network and registrations are
};
void add_adapter(CLI::App& app, Adapter& adapter);
// A line for the output, and what a file says of a simulation.
std::string profile_text(const Adapter& adapter);
Facts facts_of(const std::string& command, const Adapter& adapter, size_t ranks,
               const std::string& costs);
// The costs of the processor, as JSON.
std::string costs_text(bool with_ucp = false, bool with_rwapi = false);

// Runs a program of the libexec folder, on a software HCA of its own in virtual time. `command`
// gets the name of the file for the result and returns the program's words. Of this environment,
// nothing that could change the result is left; `more` is set in addition. Returns the result.
// Throws Failure.
std::string run_in_virtual_time(const Adapter& adapter, const std::string& transport,
                                const std::function<Words(const std::string& result)>& command,
                                const Environment& more = {});

// What tern-sim has written.
std::vector<Value> values_in(const std::string& result);

// The benchmarks of sim/benchmarks.h, with messages of these sizes. `json`: the file for the
// result, or nothing. Returns the exit status.
int run_benchmarks_of_rwapi(const Adapter& adapter, const std::vector<uint32_t>& sizes,
                            const std::string& json);

}  // namespace bench::sim
