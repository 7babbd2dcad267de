// SPDX-License-Identifier: BSD-3-Clause
// The machine on which something was measured.
#pragma once

#include <cstdint>
#include <string>

namespace report {

struct Machine {
    std::string cpu;  // the model
    int64_t cores;
    std::string kernel;
    bool is_virtual;

    std::string text() const;
};
Machine this_machine();

}  // namespace report
