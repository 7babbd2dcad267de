// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace rwapi {

// Reads a whole number from a variable of the environment. If it is not set, `value` keeps its
// default. False: it is not a number from min to max, which has been logged.
bool read_setting(const char* name, uint64_t min, uint64_t max, uint64_t& value);

}  // namespace rwapi
