// SPDX-License-Identifier: BSD-3-Clause
// Addresses on the wire.
#include "tern/connection/address.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "schedules.h"

namespace tern {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<int> values) {
    Bytes out;
    for (const int value : values) out.push_back(static_cast<std::byte>(value));
    return out;
}

Bytes packed(const PortAddress& port) {
    Bytes out(port.packed_size());
    port.pack(out.data());
    return out;
}

using Gid = std::array<uint8_t, 16>;

constexpr Gid kIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
constexpr Gid kIpv6{0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr Gid kLinkLocal{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};

// A port of Ethernet with GIDs of these families: a bit for each GidFamily.
PortAddress roce(unsigned families) {
    PortAddress port;
    port.ethernet = true;
    port.roce.families = static_cast<uint8_t>(families);
    const std::array gids{kIpv4, kIpv6, kLinkLocal};
    for (size_t kind = 0; kind < gids.size(); ++kind)
        if (port.roce.has(static_cast<verbs::GidKind>(kind))) port.roce.gids[kind] = gids[kind];
    return port;
}

PortAddress random_port(Random& random) {
    PortAddress port;
    if (random.chance(50)) {
        port = roce(static_cast<unsigned>(random.between(1, 63)));
        for (Gid& gid : port.roce.gids)
            if (gid != Gid{}) gid[14] = static_cast<uint8_t>(random());
        return port;
    }
    port.has_gid = random.chance(50);
    port.global = port.has_gid && random.chance(50);
    port.has_lid = !port.has_gid || random.chance(50);
    if (port.has_lid) port.lid = static_cast<uint16_t>(random.between(1, 0xbfff));
    if (port.has_gid) {
        for (uint8_t& byte : port.gid) byte = static_cast<uint8_t>(random());
        port.gid[0] &= 0x7f;
        port.gid[15] |= 1;
    }
    return port;
}

TEST(PortAddress, HasTheDocumentedLayout) {
    PortAddress port;
    port.has_lid = true;
    port.lid = 0x1234;
    EXPECT_EQ(packed(port), bytes({193, 0x34, 0x12}));
    port.has_gid = true;
    port.gid = kLinkLocal;
    EXPECT_EQ(packed(port),
              bytes({195, 0x34, 0x12, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(port.to_string(), "lid 4660 gid fe80:0:0:0:102:304:506:708");
    port.has_lid = false;
    port.global = true;
    EXPECT_EQ(packed(port), bytes({210, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(PortAddress, HasTheDocumentedLayoutOnEthernet) {
    EXPECT_EQ(packed(roce(1)), bytes({129, 10, 0, 0, 1}));
    EXPECT_EQ(packed(roce(4 + 32)), bytes({164, 1, 2, 3, 4, 5, 6, 7, 8}))
        << "one GID for both versions";
    EXPECT_EQ(packed(roce(1 + 2 + 4)),
              bytes({135, 10, 0, 0, 1, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0,
                     0,   0,  0, 0, 0, 1,    1, 2,    3,    4, 5, 6, 7, 8}));
    EXPECT_EQ(roce(1 + 4).to_string(), "gid 0:0:0:0:0:ffff:a00:1 gid fe80:0:0:0:102:304:506:708");
}

// UCP 1.13 aborts if a device address is longer.
TEST(PortAddress, FitsIntoTheAddressOfUcp) {
    size_t most = 0;
    for (unsigned first = 0; first < 256; ++first)
        most = std::max(most, PortAddress::packed_size(static_cast<std::byte>(first)));
    EXPECT_EQ(most, PortAddress::kMaxPacked);
    EXPECT_LE(most, 31u);
}

TEST(PortAddress, ComesBackAsItWas) {
    each_schedule(20'000, [](Random random) -> std::string {
        const PortAddress port = random_port(random);
        Bytes wire = packed(port);
        if (PortAddress::unpack(wire) != port) return "not the same: " + port.to_string();
        if (PortAddress::packed_size(wire[0]) != wire.size()) return "the first byte misleads";
        for (size_t size = 0; size < wire.size(); ++size)
            if (PortAddress::unpack(Bytes(wire.begin(), wire.begin() + size)))
                return "an address cut short is taken";
        wire.resize(PortAddress::kMaxPacked, std::byte{0xff});
        if (PortAddress::unpack(wire) != port) return "what follows an address disturbs it";
        return {};
    });
}

TEST(PortAddress, RefusesWhatIsNoPort) {
    const auto takes = [](std::initializer_list<int> values) {
        return PortAddress::unpack(bytes(values)).has_value();
    };
    EXPECT_FALSE(takes({192})) << "nowhere";
    EXPECT_FALSE(takes({192 + 33, 1, 0})) << "an unknown flag";
    EXPECT_FALSE(takes({65, 1, 0})) << "an address of UCX's own transports";
    EXPECT_FALSE(takes({192 + 17, 1, 0})) << "a GRH without a GID";
    EXPECT_FALSE(takes({193, 0, 0})) << "the reserved LID";
    EXPECT_TRUE(takes({193, 0xff, 0xbf}));
    EXPECT_FALSE(takes({193, 0, 0xc0})) << "a multicast LID";
    EXPECT_FALSE(takes({194, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_FALSE(takes({194, 0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}))
        << "a multicast GID";
}

TEST(PortAddress, RefusesWhatIsNoPortOfEthernet) {
    const auto takes = [](const PortAddress& port) {
        return PortAddress::unpack(packed(port)).has_value();
    };
    const auto with = [](size_t kind, Gid gid) {
        PortAddress port = roce(7);
        port.roce.gids[kind] = gid;
        return port;
    };
    EXPECT_TRUE(takes(roce(7)));
    EXPECT_FALSE(takes(roce(0))) << "no GID";
    EXPECT_FALSE(PortAddress::unpack(bytes({1, 10, 0, 0, 1}))) << "not Tern's";
    EXPECT_FALSE(takes(with(0, {}))) << "0.0.0.0";
    EXPECT_TRUE(takes(with(0, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 223, 1, 1, 1})));
    EXPECT_FALSE(takes(with(0, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 1, 1, 1})));
    EXPECT_FALSE(takes(with(1, {})));
    EXPECT_FALSE(takes(with(1, {0xff, 2, 1}))) << "a multicast GID";
    EXPECT_FALSE(takes(with(1, kIpv4))) << "it has a shorter form";
    EXPECT_FALSE(takes(with(1, kLinkLocal))) << "it has a shorter form";
}

TEST(PortAddress, TakesRandomBytesOnlyAsWhatTheySay) {
    each_schedule(100'000, [](Random random) -> std::string {
        Bytes wire(random.below(40));
        for (std::byte& byte : wire) byte = static_cast<std::byte>(random());
        if (!wire.empty()) wire[0] |= std::byte{0x80};
        const auto port = PortAddress::unpack(wire);
        if (!port) return {};
        if (port->packed_size() > wire.size()) return "an address longer than its bytes";
        wire.resize(port->packed_size());
        return packed(*port) == wire ? "" : "an address that would be sent differently";
    });
}

PortAddress infiniband(uint8_t subnet, bool global = false) {
    PortAddress port;
    port.has_lid = port.has_gid = true;
    port.lid = 5;
    port.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, subnet, 0, 0, 0, 0, 0, 0, 0, 1};
    port.global = global;
    return port;
}

// Either both ports reach each other, or none does.
bool reach(const PortAddress& a, const PortAddress& b) {
    EXPECT_EQ(a.unreachable(b) == nullptr, b.unreachable(a) == nullptr);
    return a.unreachable(b) == nullptr;
}

TEST(PortAddress, SubnetsAreApart) {
    EXPECT_TRUE(reach(infiniband(0), infiniband(0)));
    EXPECT_FALSE(reach(infiniband(0), infiniband(1)));
    EXPECT_TRUE(reach(infiniband(0, true), infiniband(1, true))) << "routers forward it";
    EXPECT_FALSE(reach(infiniband(0, true), infiniband(1)));
    EXPECT_TRUE(reach(infiniband(0, true), infiniband(0))) << "one of the ports requires a GRH";
    PortAddress no_gid = infiniband(0);
    no_gid.has_gid = false;
    EXPECT_TRUE(reach(no_gid, infiniband(0))) << "nothing speaks against it";
    EXPECT_FALSE(reach(no_gid, infiniband(0, true)));
    PortAddress no_lid = infiniband(0);
    no_lid.has_lid = false;
    EXPECT_FALSE(reach(no_lid, infiniband(0)));
}

// The port with GIDs of these families; entry 10 + i of its table is for the family i.
verbs::Port port_with(unsigned families) {
    verbs::Port port;
    port.ethernet = port.global = true;
    port.roce.set = roce(families).roce;
    for (size_t i = 0; i < port.roce.index.size(); ++i)
        port.roce.index[i] = static_cast<uint8_t>(10 + i);
    return port;
}

// Each choice of families at both ends: both choose the same family, the first that both have, and
// the GIDs of each end are those that the other end sends to.
TEST(PortAddress, BothEndsChooseTheSamePairOfGids) {
    const std::array gids{kIpv4, kIpv6, kLinkLocal};
    for (unsigned a = 1; a < 64; ++a)
        for (unsigned b = 1; b < 64; ++b) {
            SCOPED_TRACE(testing::Message() << a << " and " << b);
            ASSERT_EQ(reach(roce(a), roce(b)), (a & b) != 0);
            if ((a & b) == 0) continue;
            size_t family = 0;
            while ((a & b & 1u << family) == 0) ++family;
            for (const auto& [from, to] : {std::pair(a, b), {b, a}}) {
                const ibv_ah_attr way = address_vector(port_with(from), roce(to));
                ASSERT_EQ(way.is_global, 1);
                ASSERT_EQ(way.grh.sgid_index, 10 + family);
                ASSERT_EQ(memcmp(way.grh.dgid.raw, gids[family % 3].data(), 16), 0);
                ASSERT_EQ(way.grh.traffic_class, family < 3 ? 106 : 0);
            }
        }
}

TEST(PortAddress, SaysWhyRoceDoesNotReach) {
    EXPECT_FALSE(reach(roce(1), infiniband(0)));
    EXPECT_STREQ(roce(1 + 2 + 4).unreachable(roce(8 + 16 + 32)),
                 "one port uses RoCE v1, the other RoCE v2");
    EXPECT_STREQ(roce(1 + 32).unreachable(roce(2 + 4 + 16)),
                 "the ports have no kind of GID in common: IPv4, IPv6 or link-local");
}

TEST(PortAddress, OnInfiniBandThePortsDecideAboutTheGrh) {
    verbs::Port port;
    port.gid_index = 3;
    EXPECT_EQ(address_vector(port, infiniband(0)).is_global, 0);
    const ibv_ah_attr way = address_vector(port, infiniband(0, true));
    EXPECT_EQ(way.is_global, 1);
    EXPECT_EQ(way.grh.sgid_index, 3);
    EXPECT_EQ(way.grh.traffic_class, 0);
    EXPECT_EQ(way.dlid, 5);
}

TEST(InterfaceAddress, HasTheDocumentedLayout) {
    const InterfaceAddress address{0x123456, 0x0102030405};
    Bytes wire(InterfaceAddress::kPacked);
    address.pack(wire.data());
    EXPECT_EQ(wire, bytes({0x56, 0x34, 0x12, 5, 4, 3, 2, 1}));
    EXPECT_EQ(InterfaceAddress::unpack(wire.data()), address);
}

TEST(InterfaceAddress, TakesAnyBytes) {
    each_schedule(20'000, [](Random random) -> std::string {
        Bytes wire(InterfaceAddress::kPacked);
        for (std::byte& byte : wire) byte = static_cast<std::byte>(random());
        const InterfaceAddress address = InterfaceAddress::unpack(wire.data());
        if (address.qp_num >> 24 != 0 || address.instance >> 40 != 0) return "out of range";
        Bytes again(InterfaceAddress::kPacked);
        address.pack(again.data());
        return again == wire ? "" : "not the same";
    });
}

TEST(PeerAddress, NamesPortAndQueuePair) {
    PeerAddress peer;
    EXPECT_EQ(peer.to_string(), "nowhere qp 0");
    peer.port.has_lid = true;
    peer.port.lid = 7;
    peer.interface.qp_num = 42;
    EXPECT_EQ(peer.to_string(), "lid 7 qp 42");
    EXPECT_EQ(peer.on_path(3).to_string(), "lid 7 qp 42 path 3");
}

TEST(PeerAddress, EachPathIsAPeerOfItsOwn) {
    const PeerAddress peer{.port = {}, .interface = {.qp_num = 42, .instance = 5}};
    const PeerAddress other{.port = {}, .interface = {.qp_num = 43, .instance = 5}};
    EXPECT_TRUE(peer == peer.on_path(0));
    EXPECT_FALSE(peer == peer.on_path(1));
    EXPECT_NE(PeerAddressHash()(peer), PeerAddressHash()(peer.on_path(1)));
    EXPECT_TRUE(peer.has_interface_of(peer.on_path(1)));
    EXPECT_FALSE(peer.has_interface_of(other));
}

}  // namespace
}  // namespace tern
