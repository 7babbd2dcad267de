// SPDX-License-Identifier: BSD-3-Clause
// The commands of tern-bench.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/series/figure.h"
#include "bench/series/worker.h"
#include "bench/tern-bench/options.h"
#include "rendezvous/cost_model.h"

namespace bench {

struct Result {
    std::vector<Figure> figures;
    std::string notes;       // explanations for the reader
    bool matrix = false;     // as_matrix() instead of as_table()
    std::string table = {};  // replaces both
};
inline Result matrix_of(std::vector<Figure> figures, std::string notes) {
    return {.figures = std::move(figures), .notes = std::move(notes), .matrix = true};
}

// These functions throw Failure.
Result run_latency(const Options& options, const Setup& setup);
Result run_rate(const Options& options, const Setup& setup);
Result run_bandwidth(const Options& options, const Setup& setup);
Result run_pinning(const Options& options, const Setup& setup);
Result run_protocols(const Options& options, const Setup& setup);
Result run_onesided(const Options& options, const Setup& setup);
Result run_rwapi(const Options& options, const Setup& setup);
Result run_mpi(const Options& options, const Setup& setup);
Result run_overlap(const Options& options, const Setup& setup);
Result run_tune(const Options& options, const Setup& setup);
Result run_memory(const Options& options, const Setup& setup);

// The parameters of the cost model for this device, and the figures from which they are calculated.
struct MeasuredCosts {
    tern::Costs costs;
    std::vector<Figure> figures;
};
// Throws Failure.
MeasuredCosts measure_costs(const Options& options, const Setup& setup);
// A line: "latency 2.3 us, ...".
std::string costs_text(const tern::Costs& costs);

struct Command {
    const char* name;
    const char* help;
    Result (*run)(const Options& options, const Setup& setup);
    // Of Options, if the command line says nothing.
    int rounds = 15;
    uint32_t low = 1 << 10;
    uint32_t high = 16 << 20;
    double step = 1.2;
    uint32_t least = 8;  // the shortest message that it can measure
};
constexpr Command kCommands[] = {
    {"latency", "half round trips: UCT active messages, UCP tagged messages, RDMA writes",
     run_latency},
    {"rate", "streams: 8-byte active messages per second, bandwidth by size", run_rate},
    {"bandwidth", "long messages in fresh and reused buffers, limits, naive protocols, the model",
     run_bandwidth},
    {"pinning", "the gain from pinning memory while earlier parts are being sent", run_pinning},
    {"protocols", "what UCP's protocols choose over Tern, against each way by itself",
     run_protocols},
    {.name = "onesided",
     .help = "puts and gets: one at a time, each with a flush, and many at once",
     .run = run_onesided,
     .rounds = 7,
     .low = 8,
     .high = 4 << 20,
     .step = 2},
    {.name = "rwapi",
     .help = "notified writes, against MPI and RDMA writes; puts with signals, against MPI and "
             "OpenSHMEM",
     .run = run_rwapi,
     .rounds = 7,
     .low = 1,
     .high = 4 << 20,
     .step = 4,
     .least = 1},
    {.name = "mpi",
     .help = "Open MPI and MPICH: ping-pong, all-to-all, puts and gets in reused and fresh buffers",
     .run = run_mpi,
     .rounds = 7,
     .low = 16,
     .high = 1 << 20,
     .step = 4},
    {"overlap", "how much of a message the processor can leave to the network", run_overlap},
    {"tune", "the costs of copies, registrations and the network here, and the model's choices",
     run_tune},
    {"memory", "registered bytes and queue pairs by number of peers", run_memory}};

}  // namespace bench
