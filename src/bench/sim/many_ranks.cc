// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/many_ranks.h"

#include <algorithm>
#include <numeric>

#include "bench/sim/grid.h"
#include "bench/sim/programs.h"
#include "bench/sim/schedule.h"

namespace bench::sim {
namespace {

constexpr uint32_t kIncastMessages = 50;
constexpr uint32_t kIncastRanks = 8;    // at most
constexpr int kIncasts = 4;             // the last one counts
constexpr uint32_t kCrowd = 64;         // ranks, at most
constexpr uint32_t kCrowdSettles = 20;  // trips: some of the crowd get blocks
constexpr uint32_t kCrowdTrips = kCrowdSettles + 100;
constexpr uint32_t kTripsBefore = 200;
constexpr int kExchanges = 11;
// After these, neighbours are hot, and pools and blocks have nearly their size: what is left to be
// registered is in few exchanges.
constexpr uint32_t kExchangesBefore = 100;
constexpr uint32_t kManyRanks = 32;  // have few exchanges before, as each is long
constexpr uint32_t kExchangesOfMany = 30;
constexpr uint32_t kRandomBefore = 20;
constexpr uint32_t kHalos = 10;
constexpr uint32_t kHalosBefore = 300;
constexpr uint32_t kFirstStormPeer = 2;  // the distance: some neighbours are connected
constexpr uint32_t kStormPeers = 4;
constexpr uint32_t kRandomMessages = 16;
constexpr uint32_t kWindows = 4;
constexpr int kWindowsBefore = 2;  // times
constexpr int kWindowsCounted = 5;

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

// Of windows from a rank to some others each.
double windows_rate(World& world, const std::vector<std::vector<uint32_t>>& peers, uint32_t size) {
    uint64_t messages = 0;
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
        for (const uint32_t peer : peers[rank]) world.connect(rank, peer);
        messages += uint64_t{kWindows} * kWindow * peers[rank].size();
    }
    const auto windows = [&] {
        return longest(world, [&](uint32_t rank, uint64_t& of) {
            if (!peers[rank].empty())
                return send_windows(world.node(rank), peers[rank], size, kWindows, of);
            for (uint32_t sender = 0; sender < world.ranks(); ++sender)
                for (const uint32_t peer : peers[sender])
                    if (peer == rank) return answer_windows(world.node(rank), sender, kWindows);
            return idle(world.node(rank));
        });
    };
    for (int i = 0; i < kWindowsBefore; ++i) (void)windows();
    return static_cast<double>(messages) / median_time(kWindowsCounted, windows);
}

// Of the first ranks.
uint64_t rnr_naks(uint32_t ranks) {
    uint64_t naks = 0;
    for (const softhca_inspect_usage& usage : usages(ranks)) naks += usage.rnr_naks;
    return naks;
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

Crowd crowd(World& world, uint32_t size) {
    const uint32_t ranks = std::min(world.ranks(), 2 + kCrowd);
    for (uint32_t rank = 1; rank < ranks; ++rank) world.connect(0, rank);
    Node& receiver = world.node(0);
    uint64_t took = 0, other = 0;
    // All are connected, and have buffers to send from, when the counted trips begin.
    for (uint32_t rank = 1; rank < ranks; ++rank) {
        const uint32_t trips = rank == 1 ? kTripsBefore : 1;
        const uint32_t bytes = rank == 1 ? 8 : size;
        std::vector<Program> pair;
        pair.push_back(ping(receiver, rank, bytes, trips, took));
        pair.push_back(ping(world.node(rank), 0, bytes, trips, other));
        world.run(std::move(pair), rank);
    }

    const uint64_t naks = rnr_naks(ranks);
    receiver.copy_messages();
    bool over = false;
    const uint64_t before = receiver.received() - receiver.received_from(1);
    std::vector<uint64_t> trips;
    std::vector<Program> programs;
    programs.push_back(timed_ping(receiver, 1, 8, kCrowdTrips, over, trips));
    programs.push_back(answer_until(world.node(1), 0, 8, over));
    for (uint32_t rank = 2; rank < ranks; ++rank)
        programs.push_back(send_until(world.node(rank), 0, size, over));
    world.run(std::move(programs));
    const uint64_t bytes = (receiver.received() - receiver.received_from(1) - before) * size;
    const uint64_t ns = std::accumulate(trips.begin(), trips.end(), uint64_t{0});
    const uint64_t longest = *std::ranges::max_element(trips);
    trips.erase(trips.begin(), trips.begin() + kCrowdSettles);
    std::ranges::sort(trips);
    return {.median_ns = static_cast<double>(trips[trips.size() / 2]) / 2,
            .percentile_99_ns = static_cast<double>(trips[(trips.size() * 99 - 1) / 100]) / 2,
            .longest_ns = static_cast<double>(longest) / 2,
            .rate = static_cast<double>(bytes) / static_cast<double>(ns),
            .rnr_naks = rnr_naks(ranks) - naks};
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
    const uint32_t before = ranks > kManyRanks ? kExchangesOfMany : kExchangesBefore;
    const auto all = [&] {
        return longest(world, [&](uint32_t rank, uint64_t& of) {
            return exchange(world.node(rank), ranks, size, of);
        });
    };
    for (uint32_t i = 0; i < before; ++i) (void)all();
    return median_time(kExchanges, all);
}

double windows_to_all(World& world, uint32_t size) {
    std::vector<std::vector<uint32_t>> peers(world.ranks());
    for (uint32_t rank = 1; rank < world.ranks(); ++rank) peers[0].push_back(rank);
    return windows_rate(world, peers, size);
}

double windows_of_pairs(World& world, uint32_t size) {
    std::vector<std::vector<uint32_t>> peers(world.ranks());
    for (uint32_t rank = 0; rank + 1 < world.ranks(); rank += 2) peers[rank] = {rank + 1};
    return windows_rate(world, peers, size);
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
