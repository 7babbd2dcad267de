// SPDX-License-Identifier: BSD-3-Clause
// The matcher under random schedules, longer than an exhaustive search allows.
#include <gtest/gtest.h>

#include "schedules.h"
#include "tuple_world.h"

namespace tern {
namespace tuple_schedule_test {

TupleScenario any_scenario(Random& random) {
    TupleScenario s;
    s.peers = static_cast<uint8_t>(random.between(1, 3));
    s.tags = static_cast<uint8_t>(random.between(1, 3));
    s.queues = static_cast<uint8_t>(random.between(1, 3));
    s.depth = static_cast<uint8_t>(1 << random.below(3));
    s.tuples = static_cast<uint8_t>(random.between(1, 3));
    for (uint8_t& sends : s.sends) sends = static_cast<uint8_t>(random.between(0, 10));
    for (uint8_t& tag : s.only_tag)
        tag = static_cast<uint8_t>(random.chance(50) ? random.between(1, s.tags) : 0);
    s.posts = static_cast<uint8_t>(random.between(1, 20));
    s.wildcards = static_cast<uint8_t>(random.below(4));
    s.cancels = static_cast<uint8_t>(random.below(4));
    s.binds = static_cast<uint8_t>(random.below(6));
    s.unbinds = static_cast<uint8_t>(random.below(4));
    s.deaths = random.chance(20);
    s.late = random.chance(50);
    s.longest = static_cast<uint8_t>(random.chance(50) ? 1 : random.between(1, 3));
    s.capacity = static_cast<uint8_t>(random.between(1, 3));
    s.open = random.chance(40);
    s.exacts = static_cast<uint8_t>(random.below(6));
    s.key_changes = static_cast<uint8_t>(s.open && random.chance(30) ? random.between(1, 3) : 0);
    for (uint8_t tag = 1; tag <= std::min(s.tags, s.queues); ++tag)
        s.bound.push_back({static_cast<uint8_t>(random.below(s.peers)), tag});
    s.sequence = static_cast<uint16_t>(-random.below(12));
    s.epoch = static_cast<uint16_t>(-random.below(12)) & Grant::kEpochMask;
    return s;
}

struct Totals {
    uint64_t moves = 0;
    uint64_t direct = 0;
    uint64_t ordinary = 0;
    uint64_t voids = 0;
    uint64_t drains = 0;
    uint64_t holds = 0;
    uint64_t unbinds = 0;
    uint64_t discards = 0;
};

// Random weights: each schedule has moves that happen often and moves that are rare.
std::string run(Random random, Totals& totals) {
    const TupleScenario scenario = any_scenario(random);
    std::array<uint32_t, 16> weights;
    for (uint32_t& weight : weights) weight = 1 << 2 * random.below(4);
    // Most programs post their receives in time.
    if (random.chance(70))
        for (const auto kind : {TupleMove::Kind::kPost, TupleMove::Kind::kAnswer,
                                TupleMove::Kind::kGrant, TupleMove::Kind::kFrame})
            weights[static_cast<size_t>(kind)] = 256;
    TupleWorld world(scenario, Sabotage::kNone);
    std::vector<TupleMove> path;
    world.run(random.between(10, 400), [&](const TupleWorld::Moves& moves) {
        uint64_t sum = 0;
        for (const TupleMove& move : moves) sum += weights[static_cast<size_t>(move.kind)];
        uint64_t chosen = random.below(sum);
        uint32_t i = 0;
        while (chosen >= weights[static_cast<size_t>(moves[i].kind)])
            chosen -= weights[static_cast<size_t>(moves[i++].kind)];
        path.push_back(moves[i]);
        return i;
    });
    totals.moves += path.size();
    totals.direct += world.counters().direct;
    totals.ordinary += world.counters().ordinary;
    totals.voids += world.counters().void_grants;
    totals.drains += world.counters().drains;
    totals.holds += world.counters().holds;
    totals.unbinds += world.counters().unbinds;
    totals.discards += world.counters().discards;
    if (world.wrong().empty()) return {};
    std::string text = world.wrong() + "; " + scenario.text();
    for (const TupleMove& move : path) text += "\n  " + move.text();
    return text;
}

TEST(TupleSchedules, MessagesAreInTheirReceives) {
    Totals totals;
    each_schedule(600'000, [&](Random random) { return run(random, totals); });
    if (number_from_environment("TERN_SCHEDULES", 0) != 0) return;
    // Each kind of event has happened often.
    for (const uint64_t count : {totals.direct, totals.ordinary, totals.voids, totals.drains,
                                 totals.holds, totals.unbinds, totals.discards})
        EXPECT_GT(count, 10'000);
    if (number_from_environment("TERN_VERBOSE", 0))
        printf(
            "%lu moves: %lu direct, %lu ordinary, %lu void, %lu drained, %lu held, %lu unbound, "
            "%lu discarded\n",
            totals.moves, totals.direct, totals.ordinary, totals.voids, totals.drains, totals.holds,
            totals.unbinds, totals.discards);
}

}  // namespace tuple_schedule_test
}  // namespace tern
