// SPDX-License-Identifier: BSD-3-Clause
// What the workers of tern-bench's arms open, each over one programming interface of UCX or above
// it.
#pragma once

#include "bench/measure/ucx.h"
#include "bench/series/worker.h"

namespace bench {

struct PortKind {
    const char* name;  // Arm::port
    OpenPort open;
};
extern const PortKind kUctPort, kUcpPort, kRmaPort, kRwapiPort, kShimPort;

}  // namespace bench
