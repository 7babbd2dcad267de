// SPDX-License-Identifier: BSD-3-Clause
// Both ends of a connection with blocks and cold frames in both directions: the fuzzer chooses the
// order of events. The rules are those of the unit tests.
#include "fuzz.h"
#include "paths_world.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tern;
    fuzz::Input input(data, size);
    PathsWorld::Limits limits;
    limits.block_first = 512 + kStep * input.below(25);
    limits.block_most = limits.block_first << input.below(5);
    limits.longest =
        input.chance(2) ? input.below(200) : input.take<uint16_t>() % limits.block_most;
    limits.notify = input.chance(4);
    limits.pays = input.below(101);
    limits.words = input.chance(2);
    const auto choices = input.rest();
    PathsWorld world(
        Random(std::span(reinterpret_cast<const uint8_t*>(choices.data()), choices.size())),
        limits);
    world.chaos(static_cast<unsigned>(choices.size() / 2));
    world.settle();
    world.expect_room();
    if (world.wrong().empty()) world.expect_no_blocks();
    fuzz::require_nothing(world.wrong());
    return 0;
}
