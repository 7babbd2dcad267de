// SPDX-License-Identifier: BSD-3-Clause
// Device addresses as UCX's connection manager for rdma_cm packs them.
#include "tern/connection/address.h"

#include <gtest/gtest.h>

#include <vector>

#include "schedules.h"

namespace tern {
namespace {

using CmBytes = std::vector<std::byte>;

// In memory of exactly this size, so that the address sanitizer sees what is read behind it.
std::optional<PortAddress> read(std::initializer_list<int> values) {
    CmBytes out;
    for (const int value : values) out.push_back(static_cast<std::byte>(value));
    return read_device_address(out.data());
}

// Of uct_ib_address_pack(): what follows the address itself, the path MTU and the index of a GID.
constexpr int kCmOptions = 1 + 2;
constexpr int kCmEthernet = 8 + 96 + kCmOptions;
constexpr int kMtu = 5;

PortAddress complete_port(uint16_t lid, bool global = false) {
    PortAddress port;
    port.has_lid = port.has_gid = true;
    port.lid = lid;
    port.global = global;
    port.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    return port;
}

TEST(CmAddress, OfTheSameSubnetHasALid) {
    // All three have bits that, in an address of Tern's own, would say that a GID follows.
    for (const auto& read_port :
         {read({kCmOptions, 0x34, 0x12, kMtu, 0}),
          read({16 + kCmOptions, 0x34, 0x12, 7, 9, kMtu, 0}),
          read({32 + kCmOptions, 0x34, 0x12, 1, 2, 3, 4, 5, 6, 7, 8, kMtu, 0})}) {
        ASSERT_TRUE(read_port);
        EXPECT_TRUE(read_port->incomplete);
        EXPECT_EQ(read_port->to_string(), "lid 4660");
        EXPECT_EQ(complete_port(1).unreachable(*read_port), nullptr);
        EXPECT_TRUE(read_port->may_be(complete_port(0x1234)));
        EXPECT_FALSE(read_port->may_be(complete_port(0x1235)));
    }
}

TEST(CmAddress, WithAGlobalRoutingHeaderHasAGid) {
    const auto text = [](std::initializer_list<int> values) {
        const auto port = read(values);
        EXPECT_TRUE(port && port->global);
        return port ? port->to_string() : "malformed";
    };
    EXPECT_EQ(text({64 + kCmOptions, 5, 0, 1, 2, 3, 4, 5, 6, 7, 8, kMtu, 0}),
              "lid 5 gid fe80:0:0:0:102:304:506:708");
    EXPECT_EQ(text({64 + 16 + kCmOptions, 5, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x12, 0x34, kMtu, 0}),
              "lid 5 gid fec0:0:0:1234:102:304:506:708");
    EXPECT_EQ(text({64 + 32 + kCmOptions,
                    0,
                    0,
                    1,
                    2,
                    3,
                    4,
                    5,
                    6,
                    7,
                    8,
                    0x20,
                    1,
                    0,
                    0,
                    0,
                    0,
                    0,
                    9,
                    kMtu,
                    0}),
              "gid 2001:0:0:9:102:304:506:708");
    const auto port = read({64 + kCmOptions, 5, 0, 1, 2, 3, 4, 5, 6, 7, 8, kMtu, 0});
    EXPECT_TRUE(port->may_be(complete_port(5)));
    EXPECT_FALSE(port->may_be(complete_port(6))) << "another LID";
}

TEST(CmAddress, OfEthernetHasOneGidOfEitherVersion) {
    const auto port =
        read({kCmEthernet, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1, kMtu, 3});
    ASSERT_TRUE(port);
    EXPECT_TRUE(port->ethernet);
    EXPECT_EQ(port->roce.families, 1 + 8) << "IPv4, of RoCE v2 and v1";
    PortAddress complete;
    complete.ethernet = true;
    complete.roce.families = 1 + 4;
    complete.roce.gids[0] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    complete.roce.gids[2] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1};
    EXPECT_TRUE(port->may_be(complete));
    EXPECT_TRUE(complete.may_be(*port));
    EXPECT_EQ(complete.unreachable(*port), nullptr);
    complete.roce.gids[0][15] = 2;
    EXPECT_FALSE(port->may_be(complete)) << "another address";
    complete.roce.families = 4;
    complete.roce.gids[0] = {};
    EXPECT_FALSE(port->may_be(complete)) << "nothing in common";
}

TEST(CmAddress, MayBeMalformed) {
    EXPECT_FALSE(read({kCmOptions, 0, 0, kMtu, 0})) << "no LID";
    EXPECT_FALSE(read({kCmOptions, 0, 0xc0, kMtu, 0})) << "a multicast LID";
    EXPECT_FALSE(read({64 + 48 + kCmOptions, 5, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, kMtu, 0}))
        << "two subnets";
    EXPECT_FALSE(read({kCmEthernet, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kMtu, 0}));
    EXPECT_FALSE(read({kCmEthernet, 0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, kMtu, 0}))
        << "a multicast GID";
}

TEST(CmAddress, FindsThePeerWhoseInterfaceItIs) {
    const InterfaceAddress interface { 7, 8 }, later{7, 9};
    const PeerAddress found{*read({kCmOptions, 5, 0, kMtu, 0}), interface};
    const PeerAddress peer{complete_port(5), interface};
    EXPECT_EQ(found, peer);
    EXPECT_EQ(PeerAddressHash()(found), PeerAddressHash()(peer));
    EXPECT_FALSE(found == (PeerAddress{complete_port(5), later}));
    EXPECT_FALSE(found == (PeerAddress{complete_port(6), interface}));
    EXPECT_FALSE(peer == (PeerAddress{complete_port(5, true), interface}))
        << "complete addresses have no doubts";
}

TEST(CmAddress, OfTernIsReadAsItIs) {
    const PortAddress port = complete_port(5, true);
    CmBytes wire(port.packed_size());
    port.pack(wire.data());
    EXPECT_EQ(read_device_address(wire.data()), port);
}

}  // namespace
}  // namespace tern
