// SPDX-License-Identifier: BSD-3-Clause
// The handshake under random schedules.
#include <gtest/gtest.h>

#include "handshake_world.h"
#include "schedules.h"

namespace tern {
namespace {

std::string run(Random random, bool alone) {
    const auto steps = static_cast<unsigned>(random.between(0, 300));
    HandshakeWorld world(random, alone);
    world.chaos(steps);
    world.settle();
    if (world.wrong().empty()) world.expect_traffic();
    if (world.wrong().empty()) world.expect_end();
    return world.wrong();
}

TEST(HandshakeSchedules, TwoInterfacesOverABadNetwork) {
    each_schedule(20'000, [](Random random) { return run(random, false); });
}

TEST(HandshakeSchedules, AnInterfaceWithItself) {
    each_schedule(10'000, [](Random random) { return run(random, true); });
}

}  // namespace
}  // namespace tern
