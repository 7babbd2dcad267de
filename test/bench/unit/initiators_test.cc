// SPDX-License-Identifier: BSD-3-Clause
// Which peers a transport of dynamic connections has to connect to.
#include "bench/sim/initiators.h"

#include <gtest/gtest.h>

namespace bench::sim {
namespace {

TEST(Initiators, ThatHasSentLastKeepsItsPeer) {
    Initiators initiators(2);
    EXPECT_TRUE(initiators.connects(1));
    EXPECT_TRUE(initiators.connects(2));
    EXPECT_FALSE(initiators.connects(1));
    EXPECT_TRUE(initiators.connects(3)) << "by the initiator of peer 2";
    EXPECT_FALSE(initiators.connects(1));
    EXPECT_TRUE(initiators.connects(2));
}

TEST(Initiators, NoneConnect) {
    Initiators initiators(0);
    EXPECT_FALSE(initiators.connects(1));
    EXPECT_FALSE(initiators.connects(2));
}

}  // namespace
}  // namespace bench::sim
