// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace bench::sim {

// A result. Exact: the same in each run.
struct Value {
    std::string test;
    double x;  // bytes of a message
    std::string unit;
    double value;
};

}  // namespace bench::sim
