// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "bench/tern-bench/arm.h"

namespace bench {

// What a worker process is started with. It opens its port together with the other worker of its
// pair, and then carries out the orders that come through `control`.
struct WorkerJob {
    Layer layer = Layer::kRaw;
    std::string transport;
    std::string device;
    int gid_index = 0;
    bool measures = false;
    int cpu = -1;         // none: -1
    int device_cpu = -1;  // of the threads that libraries start
    int control = -1;
    int peer = -1;
};

// What a worker sends back, and before the first order to say that it is ready. Samples follow, at
// most kChunk a message.
struct Reply {
    static constexpr uint64_t kChunk = 2048;

    bool ok = false;
    char text[256] = {};  // what went wrong
    uint64_t samples = 0;
    double cpu_share = 0;  // of the time the order took, what this process had a CPU
};

// First word of a worker's command line.
constexpr const char* kWorkerCommand = "worker";

// Returns the exit status.
int worker_main(int argc, char** argv);
// The words behind kWorkerCommand.
std::vector<std::string> worker_arguments(const WorkerJob& job);

}  // namespace bench
