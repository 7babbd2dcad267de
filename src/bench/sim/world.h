// SPDX-License-Identifier: BSD-3-Clause
// The ranks of a simulation, and their turns.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "bench/sim/machine.h"
#include "bench/sim/node.h"
#include "bench/sim/program.h"
#include "bench/sim/schedule.h"

namespace bench::sim {

class World {
  public:
    struct Shape {
        Members members = {};             // of the fabric; who shares one shares its port
        uint64_t memory = Node::kMemory;  // see there; 0: no puts and gets
        void (*opened_first)() = [] {};   // called when rank 0 has its interface
    };

    // Opens the transport for each rank.
    World(const std::string& transport, uint32_t ranks) : World(transport, ranks, Shape()) {}
    World(const std::string& transport, uint32_t ranks, const Shape& shape);

    uint32_t ranks() const { return static_cast<uint32_t>(nodes_.size()); }
    Node& node(uint32_t rank) { return nodes_[rank]; }
    // Lets two ranks talk to each other.
    void connect(uint32_t one, uint32_t other);
    // Runs a program on each of the first ranks, from one time on, until all have ended. Ranks
    // whose program has ended poll until then. Throws what programs throw.
    // `first`: the rank of the second one.
    void run(std::vector<Program> programs, uint32_t first = 1);

  private:
    Machine machine_;
    std::deque<Node> nodes_;
    std::vector<bool> connected_;  // of two ranks
    uint64_t end_;                 // of what has run
    Members members_;
};

}  // namespace bench::sim
