// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/world.h"

#include <algorithm>

#include "bench/sim/turns.h"

namespace bench::sim {

World::World(const std::string& transport, uint32_t ranks, const Shape& shape)
    : machine_(verbs_of(costs_of(transport))),
      connected_(size_t{ranks} * ranks),
      members_(shape.members) {
    const std::vector<rwapi::Resource> resources = resources_of(running(transport));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
        machine_.become(members_.of(rank));
        nodes_.emplace_back(machine_, rank, costs_of(transport), resources, ranks, shape.memory);
        if (rank == 0) shape.opened_first();
    }
    end_ = machine_.now();
}

void World::connect(uint32_t one, uint32_t other) {
    const auto [low, high] = std::minmax(one, other);
    const size_t index = low * nodes_.size() + high;
    if (low == high || connected_[index]) return;
    connected_[index] = true;
    machine_.set(end_);
    Node::connect(nodes_[low], nodes_[high]);
    end_ = machine_.now();
}

void World::run(std::vector<Program> programs, uint32_t first) {
    run_programs(machine_, end_, programs, {first, members_},
                 [this](uint32_t rank) -> Node& { return nodes_[rank]; });
}

}  // namespace bench::sim
