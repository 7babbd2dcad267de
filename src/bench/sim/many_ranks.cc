// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/many_ranks.h"

#include <algorithm>

#include "bench/sim/chance.h"
#include "bench/sim/grid.h"
#include "bench/sim/programs.h"

namespace bench::sim {
namespace {

constexpr uint32_t kIncastMessages = 50;
constexpr uint32_t kIncastRanks = 8;  // at most
constexpr int kIncasts = 4;           // the last one counts
constexpr uint32_t kExchanges = 11;
// After these, neighbours are hot, and pools and blocks have nearly their size: what is left to be
// registered is in few exchanges.
constexpr uint32_t kExchangesBefore = 100;
constexpr uint32_t kRandomBefore = 20;
constexpr uint32_t kHalos = 10;
constexpr uint32_t kHalosBefore = 300;
constexpr uint32_t kFirstStormPeer = 2;  // the distance: some neighbours are connected
constexpr uint32_t kStormPeers = 4;
constexpr uint32_t kRandomMessages = 16;

// Runs a program on each rank: program_of(rank, took). Returns the longest time in ns.
template <typename ProgramOf>
double longest(World& world, ProgramOf&& program_of) {
    std::vector<uint64_t> took(world.ranks());
    std::vector<Program> programs;
    for (uint32_t rank = 0; rank < world.ranks(); ++rank)
        programs.push_back(program_of(rank, took[rank]));
    world.run(std::move(programs));
    return static_cast<double>(*std::ranges::max_element(took));
}

// Each rank sends a message to each of its peers. In ns.
double scatter_all(World& world, const std::vector<std::vector<uint32_t>>& peers, uint32_t size) {
    std::vector<uint64_t> expected(world.ranks());
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
        for (const uint32_t peer : peers[rank]) {
            ++expected[peer];
            world.connect(rank, peer);
        }
    }
    return longest(world, [&](uint32_t rank, uint64_t& took) {
        return scatter(world.node(rank), peers[rank], size, expected[rank], took);
    });
}

}  // namespace

double storm(World& world) {
    const uint32_t ranks = world.ranks();
    std::vector<std::vector<uint32_t>> peers(ranks);
    const uint32_t end = std::min(kFirstStormPeer + kStormPeers, ranks - 1);
    for (uint32_t rank = 0; rank < ranks; ++rank)
        for (uint32_t distance = kFirstStormPeer; distance < end; ++distance)
            peers[rank].push_back((rank + distance) % ranks);
    return scatter_all(world, peers, 8);
}

double incast(World& world, uint32_t size) {
    const uint32_t ranks = std::min(world.ranks(), kIncastRanks);
    for (uint32_t rank = 1; rank < ranks; ++rank) world.connect(0, rank);
    double rate = 0;
    // The first time connects, and pools settle in the others but the last.
    for (int time = 0; time < kIncasts; ++time) {
        const uint64_t messages = uint64_t{ranks - 1} * kIncastMessages;
        uint64_t took = 0;
        std::vector<Program> programs;
        programs.push_back(receive(world.node(0), messages, took));
        for (uint32_t rank = 1; rank < ranks; ++rank)
            programs.push_back(send_stream(world.node(rank), 0, size, kIncastMessages));
        world.run(std::move(programs));
        rate = static_cast<double>(messages * size) / static_cast<double>(took);
    }
    return rate;
}

double halo(World& world, uint32_t dimensions, uint32_t size) {
    const std::vector<uint32_t> edges = edges_of(world.ranks(), dimensions);
    for (uint32_t rank = 0; rank < world.ranks(); ++rank)
        for (const uint32_t peer : neighbours(rank, edges)) world.connect(rank, peer);
    double took = 0;
    for (const uint32_t times : {kHalosBefore, kHalos})
        took = longest(world, [&](uint32_t rank, uint64_t& of) {
            return exchange_faces(world.node(rank), neighbours(rank, edges), size, times, of);
        });
    return took / kHalos;
}

double all_to_all(World& world, uint32_t size) {
    const uint32_t ranks = world.ranks();
    for (uint32_t one = 0; one < ranks; ++one)
        for (uint32_t other = one + 1; other < ranks; ++other) world.connect(one, other);
    std::vector<double> times;
    for (uint32_t i = 0; i < kExchangesBefore + kExchanges; ++i)
        times.push_back(longest(world, [&](uint32_t rank, uint64_t& of) {
            return exchange(world.node(rank), ranks, size, of);
        }));
    const auto median = times.end() - kExchanges / 2 - 1;
    std::nth_element(times.end() - kExchanges, median, times.end());
    return *median;
}

double random_peers(World& world, uint32_t size) {
    const uint32_t ranks = world.ranks();
    std::vector<std::vector<uint32_t>> peers(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank)
        for (uint32_t i = 0; i < kRandomMessages; ++i) {
            const uint64_t distance =
                1 + chance(uint64_t{rank} * kRandomMessages + i) % (ranks - 1);
            peers[rank].push_back(static_cast<uint32_t>((rank + distance) % ranks));
        }
    for (uint32_t i = 0; i < kRandomBefore; ++i) (void)scatter_all(world, peers, size);
    return scatter_all(world, peers, size);
}

}  // namespace bench::sim
