// SPDX-License-Identifier: BSD-3-Clause
// The commands of tern-bench, and their options.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/series/figure.h"
#include "bench/series/worker.h"
#include "rendezvous/cost_model.h"

namespace bench {

// The command sets what the command line does not: see Command.
struct Options {
    std::string command;
    std::string device;              // as UCX names it; empty: the first
    std::string transport = "tern";  // is compared with rc_verbs
    int rounds = 0;
    int gid_index = 0;
    bool quick = false;
    bool brief = false;   // mpi: the most telling comparisons only
    std::string profile;  // of the benchmark's own software HCA; empty: the environment decides
    double step = 0;      // factor from one size to the next
    uint32_t low = 0;
    uint32_t high = 0;
    std::string json;
    std::vector<uint32_t> peers = {1, 4, 16, 32, 63};  // for `memory`
    int hot = -1;                                      // for `memory`; -1: all
};

// Returns nothing, or the exit status if the program must end now.
std::optional<int> parse_command_line(int argc, char** argv, Options* options);

// The sizes of messages: multiples of a word, or less than a word, in equal steps of about
// options.step, including all powers of two.
inline std::vector<uint32_t> long_sizes(const Options& options) {
    const double step = options.quick ? std::max(options.step, 8.0) : options.step;
    const double doublings = std::log2(step);
    const double wide = doublings < 1 ? 1 / std::round(1 / doublings) : std::round(doublings);
    const auto whole = [](double size) {
        return static_cast<uint32_t>(size < 8 ? std::round(size) : std::round(size / 8) * 8);
    };
    std::vector<uint32_t> sizes;
    for (double power = std::ceil(std::log2(options.low) / wide - 1e-9) * wide;; power += wide) {
        const uint32_t size = whole(std::exp2(power));
        if (size > options.high) break;
        if (sizes.empty() || size != sizes.back()) sizes.push_back(size);
    }
    if (sizes.empty()) sizes.push_back(options.low < 8 ? options.low : options.low / 8 * 8);
    return sizes;
}

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
