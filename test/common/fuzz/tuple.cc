// SPDX-License-Identifier: BSD-3-Clause
// Direct messages: senders and a receiver around the real cores, with everything between them late.
// The fuzzer chooses the scenario and the order of events; the reference is MPI's matching.
#include <algorithm>

#include "common/random.h"
#include "fuzz.h"
#include "tuple_world.h"

namespace tern {
namespace {

TupleScenario scenario_of(Random& random) {
    const auto upto = [&](uint64_t most) { return static_cast<uint8_t>(random.below(most + 1)); };
    TupleScenario s;
    s.peers = 1 + upto(2);
    s.tags = 1 + upto(2);
    s.queues = 1 + upto(2);
    s.depth = static_cast<uint8_t>(1 << upto(2));
    s.tuples = 1 + upto(2);
    for (uint8_t& sends : s.sends) sends = upto(10);
    for (uint8_t& tag : s.only_tag) tag = upto(s.tags);
    s.posts = 1 + upto(19);
    s.wildcards = upto(3);
    s.cancels = upto(3);
    s.binds = upto(5);
    s.unbinds = upto(3);
    s.deaths = random.chance(20);
    s.late = random.chance(50);
    s.longest = 1 + upto(2);
    s.capacity = 1 + upto(2);
    s.open = random.chance(40);
    s.exacts = upto(5);
    s.key_changes = s.open ? upto(3) : 0;
    for (uint8_t tag = 1; tag <= std::min(s.tags, s.queues); ++tag)
        s.bound.push_back({upto(s.peers - 1), tag});
    s.sequence = static_cast<uint16_t>(-upto(11));
    s.epoch = static_cast<uint16_t>(-upto(11)) & Grant::kEpochMask;
    return s;
}

}  // namespace
}  // namespace tern

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tern;
    if (size < 32) return 0;
    Random random(std::span(data, size));
    const TupleScenario scenario = scenario_of(random);
    TupleWorld world(scenario, Sabotage::kNone);
    world.run(std::min<size_t>(size - 24, 400),
              [&](const auto& moves) { return static_cast<uint32_t>(random.below(moves.size())); });
    if (!world.wrong().empty()) fuzz::broken(world.wrong() + "; " + scenario.text());
    return 0;
}
