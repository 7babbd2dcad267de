// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <optional>
#include <string>

#include "bench/measure/statistics.h"
#include "bench/tern-bench/arm.h"
#include "bench/tern-bench/process.h"

namespace bench {

struct Setup {
    std::string device;  // as UCX names it
    int gid_index = 0;
    std::optional<std::pair<int, int>> cpus;
    std::string tern_library;
    bool by_plugin_path = false;  // how this UCX finds it
};

struct Outcome {
    Samples samples;
    double cpu_share = 1;  // the lower one of both processes
};

// What an arm's processes are started with besides what is in the environment already.
Environment environment_of(const Arm& arm, const Setup& setup);

// Two workers of one arm, connected and waiting for orders; they use no CPU while they wait.
class Pair {
  public:
    Pair(const Arm& arm, const Setup& setup);
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    // Throws Failure.
    Outcome run(const Order& order);
    // Ends both. Throws Failure. Without it they are killed.
    void finish();

  private:
    struct Worker {
        Descriptor control;
        Process process;
    };
    Worker start(const Arm& arm, const Setup& setup, bool measures, int peer);
    Samples read_reply(Worker& worker, double* cpu_share);

    const std::string name_;
    const Layer layer_;
    // Declared in the order in which they start.
    std::pair<Descriptor, Descriptor> link_;
    Worker measuring_;
    Worker answering_;
};

}  // namespace bench
