// SPDX-License-Identifier: BSD-3-Clause
// Two interfaces that connect, or one with itself, over a network that loses, duplicates and
// reorders: the fuzzer chooses the order of events. The rules are those of the unit tests.
#include "fuzz.h"
#include "handshake_world.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tern;
    if (size < 24) return 0;
    // A step takes two bytes at least.
    HandshakeWorld world(Random(std::span(data + 1, size - 1)), data[0] % 4 == 0);
    world.chaos(static_cast<unsigned>(size / 2));
    world.settle();
    if (world.wrong().empty()) world.expect_traffic();
    if (world.wrong().empty()) world.expect_end();
    fuzz::require_nothing(world.wrong());
    return 0;
}
