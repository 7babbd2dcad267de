// SPDX-License-Identifier: BSD-3-Clause
// What is measured of simulated ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench::sim {

// A result. Exact: the same in each run.
struct Value {
    std::string test;
    double x;  // bytes of a message
    std::string unit;
    double value;
    std::string name = {};  // of what is compared; empty: the transport
};

// Their names, in the order in which they run.
constexpr const char* kPatterns[] = {"ping-pong", "stream",  "puts",  "gets",         "overlap",
                                     "storm",     "incast",  "halo",  "all-to-all",   "random",
                                     "crowd",     "windows", "pairs", "last-of-burst"};

// Of the patterns with these names: UCT's active messages, puts and gets between two ranks, and
// messages of `ranks` ranks, of which so many share a port.
std::vector<Value> measure(const std::string& transport, uint32_t ranks, uint32_t per_port,
                           const std::vector<std::string>& patterns);

}  // namespace bench::sim
