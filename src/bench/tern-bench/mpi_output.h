// SPDX-License-Identifier: BSD-3-Clause
// The output of mpi_program.c.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "bench/measure/clock.h"

namespace bench {

struct MpiResult {
    std::string test;
    uint32_t size;
    double value;  // us or GB/s
    double cpu_share;

    bool operator==(const MpiResult&) const = default;
};

struct MpiOutput {
    std::string library;  // the name and version of the MPI
    std::vector<MpiResult> results = {};

    // Throws Failure if there is none.
    const MpiResult& find(const std::string& test, uint32_t size) const {
        for (const MpiResult& result : results) {
            if (result.test == test && result.size == size) return result;
        }
        throw Failure("no result of " + test + " with " + std::to_string(size) + " bytes");
    }
};

// Other lines are left out: MPI libraries print their own. Throws Failure if a line is broken.
inline MpiOutput parse_mpi_output(const std::string& text) {
    MpiOutput output;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string kind;
        words >> kind;
        if (kind == "library") {
            for (std::string word; words >> word;) {
                output.library.append(output.library.empty() ? "" : " ").append(word);
            }
        } else if (kind == "result") {
            MpiResult result;
            std::string rest;
            words >> result.test >> result.size >> result.value >> result.cpu_share;
            if (!words || words >> rest || !(result.value > 0))
                throw Failure("not a result: " + line);
            output.results.push_back(std::move(result));
        }
    }
    return output;
}

}  // namespace bench
