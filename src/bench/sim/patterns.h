// SPDX-License-Identifier: BSD-3-Clause
// What simulated ranks do, and what is measured of it.
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
};

// Of UCT's active messages and puts between two ranks, and of `ranks` ranks.
std::vector<Value> measure(const std::string& transport, uint32_t ranks);

}  // namespace bench::sim
