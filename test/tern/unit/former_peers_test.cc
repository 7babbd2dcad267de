// SPDX-License-Identifier: BSD-3-Clause
// Which peers a closing interface notifies, and to which it does not connect again.
#include "tern/connection/peers.h"

#include <gtest/gtest.h>

#include <vector>

#include "tern/base/tunables.h"

namespace tern {
namespace {

PeerAddress former_peer(uint32_t number) {
    PeerAddress address;
    address.interface = {.qp_num = number, .instance = number};
    return address;
}

std::vector<uint32_t> acquainted(const FormerPeers& peers, size_t most = SIZE_MAX) {
    std::vector<uint32_t> numbers;
    peers.for_each_acquainted([&](const PeerAddress& each) {
        numbers.push_back(each.interface.qp_num);
        return numbers.size() != most;
    });
    return numbers;
}

TEST(FormerPeersTest, ThoseThatHaveLeftHaveNoEndpoints) {
    FormerPeers peers;
    for (uint32_t i : {1, 2, 3, 2}) peers.on_over(former_peer(i));
    EXPECT_EQ(acquainted(peers), (std::vector<uint32_t>{1, 2, 3}));
    EXPECT_EQ(acquainted(peers, 2), (std::vector<uint32_t>{1, 2}));
    EXPECT_FALSE(peers.has_left(former_peer(2)));
    peers.on_left(former_peer(2));
    EXPECT_TRUE(peers.has_left(former_peer(2)));
    EXPECT_FALSE(peers.has_left(former_peer(1)));
    EXPECT_EQ(acquainted(peers), (std::vector<uint32_t>{1, 3}));
    // Its connection ends after it has left.
    peers.on_over(former_peer(2));
    peers.on_left(former_peer(4));
    peers.on_over(former_peer(4));
    EXPECT_EQ(acquainted(peers), (std::vector<uint32_t>{1, 3}));
}

// One word of the peer is about all of its connections.
TEST(FormerPeersTest, OnWhateverPath) {
    FormerPeers peers;
    peers.on_over(former_peer(1).on_path(2));
    peers.on_over(former_peer(1));
    EXPECT_EQ(acquainted(peers), (std::vector<uint32_t>{1}));
    peers.on_left(former_peer(1));
    EXPECT_TRUE(peers.has_left(former_peer(1).on_path(2)));
    EXPECT_EQ(acquainted(peers), std::vector<uint32_t>{});
}

TEST(FormerPeersTest, MemoryIsBounded) {
    FormerPeers peers;
    const uint32_t count = kFormerPeers + 10;
    for (uint32_t i = 0; i < count; ++i) {
        peers.on_over(former_peer(i));
        peers.on_left(former_peer(count + i));
    }
    const auto numbers = acquainted(peers);
    EXPECT_EQ(numbers.size(), kFormerPeers);
    EXPECT_EQ(numbers.front(), 10u);
    EXPECT_FALSE(peers.has_left(former_peer(count)));
    EXPECT_TRUE(peers.has_left(former_peer(2 * count - 1)));
}

}  // namespace
}  // namespace tern
