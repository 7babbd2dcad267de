// SPDX-License-Identifier: BSD-3-Clause
// The program that `tern-bench sim` starts, one for each transport: it has all ranks.
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "bench/measure/clock.h"
#include "bench/sim/benchmarks.h"
#include "bench/sim/patterns.h"

namespace {

std::vector<bench::sim::Value> values_of(int argc, char** argv) {
    const auto number = [argv](int i) {
        return static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10));
    };
    if (argv[2] == std::string(bench::sim::kBenchmarks)) {
        std::vector<uint32_t> sizes;
        for (int i = 4; i < argc; ++i) sizes.push_back(number(i));
        return bench::sim::run_benchmarks(argv[1], sizes);
    }
    if (argv[2] == std::string(bench::sim::kFreshRanks))
        return bench::sim::measure_fresh(argv[1], number(4));
    if (argv[2] == std::string(bench::sim::kTaggedRanks))
        return bench::sim::measure_tagged(argv[1], number(4));
    const uint32_t ranks = number(2);
    if (argc == 6 && argv[4] == std::string(bench::sim::kMemoryPattern))
        return bench::sim::count_memory(argv[1], ranks, number(5));
    const char* const shared = std::strchr(argv[2], ':');
    const uint32_t per_port =
        shared == nullptr ? 1 : static_cast<uint32_t>(std::strtoul(shared + 1, nullptr, 10));
    return bench::sim::measure(argv[1], ranks, per_port, {argv + 4, argv + argc});
}

}  // namespace

// The transport, the number of ranks (and behind a colon how many of them share a port), the file
// for the result, and the patterns; or "memory" and the number of hot peers. Or of benchmarks:
// their simulation, "benchmarks", the file, and sizes. Or of buffers that were never used before,
// or of tagged messages: the transport, "fresh" or "tagged", the file, and the number of ranks.
int main(int argc, char** argv) {
    if (argc < 5) {
        std::fputs("tern-sim is started by 'tern-bench sim'\n", stderr);
        return 2;
    }
    // Of most pools of buffers, only the first pages are used: large pages would have to be
    // cleared.
    (void)::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    try {
        std::string text;
        for (const bench::sim::Value& value : values_of(argc, argv))
            text += report::formatted("%s\t%.0f\t%s\t%.6f\t%s\n", value.test.c_str(), value.x,
                                      value.unit.c_str(), value.value, value.name.c_str());
        std::ofstream file(argv[3]);
        file << text;
        if (!file.flush()) throw report::Failure(std::string("cannot write to ") + argv[3]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tern-bench sim: %s\n", error.what());
        return 1;
    }
    // Endpoints need not be closed in turns: the process ends.
    std::_Exit(0);
}
