// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace bench {

// What a process has taken of the device, as the device counts it.
struct Footprint {
    uint64_t registered_bytes = 0;
    uint32_t queue_pairs = 0;
};

// Only the software HCA tells. Throws Failure.
Footprint footprint_of(pid_t process);

}  // namespace bench
