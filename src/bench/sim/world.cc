// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/world.h"

#include <algorithm>

#include "bench/sim/schedule.h"

namespace bench::sim {
namespace {

constexpr uint64_t kLimit = 1'000'000'000;  // ns of virtual time, for what runs at once

// When Tern opens a device, it measures copies that the compiler has made instructions of, again
// and again until some time has passed. The results are not used: see the settings in sim.cc.
constexpr uint64_t kOpeningReading = 50'000;

const TransportCosts& costs_of(const std::string& transport) {
    for (const TransportCosts& costs : kTransports)
        if (costs.name == transport) return costs;
    return kTransports.back();
}

rwapi::Resource resource_of(const std::string& transport) {
    const auto found = rwapi::choose_resources(rwapi::list_resources(), transport.c_str(), nullptr);
    if (found.empty()) throw Failure("UCX has no transport " + transport);
    return found.front();
}

}  // namespace

// Other ranks than the first one share members.
World::World(const std::string& transport, uint32_t ranks, const Shape& shape)
    : machine_({}), connected_(size_t{ranks} * ranks), members_(shape.members) {
    machine_.let_readings_take(kOpeningReading);
    const rwapi::Resource resource = resource_of(transport);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
        const uint32_t member =
            rank < shape.members ? rank : 1 + (rank - 1) % std::max(shape.members - 1, 1U);
        machine_.become(member);
        nodes_.emplace_back(machine_, rank, costs_of(transport), resource, ranks, shape.memory);
        if (rank == 0) shape.opened_first();
    }
    machine_.let_readings_take(kReadClock);
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
    const uint64_t limit = end_ + kLimit;
    const Part part = {first, members_ - 1};
    Schedule schedule(static_cast<uint32_t>(programs.size()), end_);
    for (size_t left = programs.size(); left != 0;) {
        const auto [turn, time] = next_turn(schedule, machine_, part);
        if (time > limit) throw Failure("a simulated program does not end");
        if (step(schedule, turn, part.rank(turn), time, programs[turn])) --left;
    }
    machine_.leave_out(0);
}

// A step of a rank. True: its program has ended in it.
bool World::step(Schedule& schedule, uint32_t turn, uint32_t rank, uint64_t time,
                 Program& program) {
    machine_.set(time);
    machine_.leave_out(schedule.slept(turn));
    Node& node = nodes_[rank];
    const uint64_t done = node.done();
    const bool ended = program.done();
    if (ended)
        node.step();
    else
        program.step();
    const uint64_t now = machine_.now();
    end_ = std::max(end_, now);
    end_turn(schedule, machine_, turn, now, node.done() == done);
    return !ended && program.done();
}

}  // namespace bench::sim
