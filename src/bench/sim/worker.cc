// SPDX-License-Identifier: BSD-3-Clause
// The program that `tern-bench sim` starts, one for each transport: it has all ranks.
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "bench/measure/clock.h"
#include "bench/sim/memory.h"
#include "bench/sim/patterns.h"

// The transport, the number of ranks, the file for the result, and the patterns; or "memory" and
// the number of hot peers.
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
        const auto ranks = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
        const bool counts = argc == 6 && std::string(argv[4]) == bench::sim::kMemoryPattern;
        const auto values =
            counts ? bench::sim::count_memory(
                         argv[1], ranks, static_cast<uint32_t>(std::strtoul(argv[5], nullptr, 10)))
                   : bench::sim::measure(argv[1], ranks, {argv + 4, argv + argc});
        for (const bench::sim::Value& value : values)
            text += report::formatted("%s\t%.0f\t%s\t%.6f\n", value.test.c_str(), value.x,
                                      value.unit.c_str(), value.value);
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
