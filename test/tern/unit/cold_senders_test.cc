// SPDX-License-Identifier: BSD-3-Clause
#include "tern/veloblock/allowance.h"

#include <gtest/gtest.h>

#include <vector>

#include "tern/base/tunables.h"

namespace tern {
namespace {

TEST(ColdSenders, EachCountsOnce) {
    ColdSenders senders;
    std::vector<ColdSenders::Peer> peers(3);
    EXPECT_EQ(senders.number(), 0u);
    for (int i = 0; i < 5; ++i)
        for (ColdSenders::Peer& peer : peers) senders.count(peer);
    EXPECT_EQ(senders.number(), 3u);
}

// Those of a round count in the next one too, and then no more.
TEST(ColdSenders, SilentOnesAreForgotten) {
    ColdSenders senders;
    std::vector<ColdSenders::Peer> peers(64);
    for (uint32_t i = 0; i < kColdRound; ++i) senders.count(peers[i % 64]);
    EXPECT_EQ(senders.number(), 64u);
    for (uint32_t i = 0; i < kColdRound - 1; ++i) {
        senders.count(peers[0]);
        ASSERT_EQ(senders.number(), 64u) << i;
    }
    senders.count(peers[0]);
    EXPECT_EQ(senders.number(), 1u);
}

TEST(ColdSenders, ACrowdIsSeenAtOnce) {
    ColdSenders senders;
    std::vector<ColdSenders::Peer> peers(100);
    for (uint32_t i = 0; i < 2 * kColdRound + 5; ++i) senders.count(peers[0]);
    for (ColdSenders::Peer& peer : peers) senders.count(peer);
    EXPECT_EQ(senders.number(), 100u);
}

}  // namespace
}  // namespace tern
