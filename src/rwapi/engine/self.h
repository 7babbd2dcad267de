// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace rwapi {

// What identifies a context of this process to its peers, and what it offers them. It does not
// change.
struct Self {
    uint32_t rank;
    uint32_t size;         // of the job
    uint64_t incarnation;  // a random number; 0: there are none
    uint32_t slots;        // notification slots
    uint32_t credit;       // small messages that one peer may have under way
};

}  // namespace rwapi
