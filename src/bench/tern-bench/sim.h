// SPDX-License-Identifier: BSD-3-Clause
// What the commands `tern-bench sim`, `replay` and `memory` share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/report/figure.h"
#include "bench/series/options.h"
#include "bench/series/process.h"
#include "bench/sim/costs.h"
#include "bench/sim/patterns.h"
#include "common/command.h"

namespace bench::sim {

// The inputs of the processor.
struct Processor {
    uint32_t copy = kCopyBandwidth;            // GB/s
    uint64_t block = VerbsCosts().block;       // ns
    uint32_t instructions = kInstructionRate;  // in a ns
};

// A model of the software HCA.
struct Adapter {
    std::string profile = "graphene";
    std::string model;
    uint32_t slow = 1;  // how many times as slow as modeled the network and registrations are
    Processor processor = {};
};
void add_adapter(CLI::App& app, Adapter& adapter);
void add_processor(CLI::App& app, Processor& processor);
// A line for the output, and what a file says of a simulation.
std::string profile_text(const Adapter& adapter);
report::Facts facts_of(const std::string& command, const Adapter& adapter, const std::string& ranks,
                       const std::string& costs);
// The costs of the processor, as JSON: of these transports, and of what runs above them.
enum class Above : uint8_t { kUct, kUcpToo, kRwapiToo };
std::string costs_text(const Adapter& adapter, const std::vector<std::string>& transports,
                       Above above = Above::kUct);
// "rc_mlx5, modelled": a transport in results.
std::string title_of(const std::string& transport);
// Tern, and what it is compared with.
inline const std::vector<std::string> kUsualTransports = {"tern", "rc_verbs"};
// --transports.
void add_transports(CLI::App& app, std::vector<std::string>& transports);

// Runs a program of the libexec folder, on a software HCA of its own in virtual time. `command`
// gets the name of the file for the result and returns the program's words. Of this environment,
// nothing that could change the result is left; `more` is set in addition. Returns the result.
// Throws Failure.
std::string run_in_virtual_time(const Adapter& adapter, const std::string& transport,
                                const std::function<Words(const std::string& result)>& command,
                                const Environment& more = {});

// The environment of UCP over a transport, to be set for that.
Environment over_ucp(const std::string& transport);

// What tern-sim has written.
std::vector<Value> values_in(const std::string& result);

// The benchmarks of sim/benchmarks.h, with messages of these sizes, UCP's over the transports.
// `json`: the file for the result, or nothing. Returns the exit status.
int run_benchmarks_of_rwapi(const Adapter& adapter, const std::vector<std::string>& transports,
                            const std::vector<uint32_t>& sizes, const std::string& json);

}  // namespace bench::sim

namespace bench::replay {

// The time of a recorded job, in us: of the slowest rank.
double job_us(const sim::Adapter& adapter, const std::string& transport, double compute,
              const std::vector<std::string>& traces, const Environment& more);

}  // namespace bench::replay
