// SPDX-License-Identifier: BSD-3-Clause
// Addresses on the wire.
#include "connection/address.h"

#include <gtest/gtest.h>

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

PortAddress random_port(Random& random) {
    PortAddress port;
    port.ethernet = random.chance(30);
    port.has_gid = port.ethernet || random.chance(50);
    port.roce_v2 = port.ethernet && random.chance(50);
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
    EXPECT_EQ(packed(port), bytes({1, 0x34, 0x12}));
    port.has_gid = true;
    port.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_EQ(packed(port),
              bytes({3, 0x34, 0x12, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(port.to_string(), "lid 4660 gid fe80:0:0:0:102:304:506:708");
    port.has_lid = false;
    port.ethernet = true;
    EXPECT_EQ(packed(port), bytes({6, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
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
    EXPECT_FALSE(PortAddress::unpack(bytes({0}))) << "nowhere";
    EXPECT_FALSE(PortAddress::unpack(bytes({33, 1, 0}))) << "an unknown flag";
    EXPECT_FALSE(PortAddress::unpack(bytes({9, 1, 0}))) << "RoCE v2 on InfiniBand";
    EXPECT_FALSE(PortAddress::unpack(bytes({17, 1, 0}))) << "a GRH without a GID";
    EXPECT_FALSE(PortAddress::unpack(bytes({1, 0, 0}))) << "the reserved LID";
    EXPECT_TRUE(PortAddress::unpack(bytes({1, 0xff, 0xbf})));
    EXPECT_FALSE(PortAddress::unpack(bytes({1, 0, 0xc0}))) << "a multicast LID";
    EXPECT_FALSE(PortAddress::unpack(bytes({5, 1, 0}))) << "Ethernet without GID";
    EXPECT_FALSE(PortAddress::unpack(bytes({2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})));
    EXPECT_FALSE(PortAddress::unpack(bytes({2, 0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})))
        << "a multicast GID";
}

TEST(PortAddress, TakesRandomBytesOnlyAsWhatTheySay) {
    each_schedule(100'000, [](Random random) -> std::string {
        Bytes wire(random.below(24));
        for (std::byte& byte : wire) byte = static_cast<std::byte>(random());
        if (!wire.empty()) wire[0] &= std::byte{0x3f};
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

PortAddress roce(std::array<uint8_t, 16> gid, bool v2) {
    PortAddress port;
    port.ethernet = port.has_gid = port.global = true;
    port.gid = gid;
    port.roce_v2 = v2;
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

TEST(PortAddress, FamiliesOfRoceAreApart) {
    const std::array<uint8_t, 16> ipv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    const std::array<uint8_t, 16> ipv6{0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    EXPECT_TRUE(reach(roce(ipv4, true), roce(ipv4, true)));
    EXPECT_TRUE(reach(roce(ipv6, true), roce(ipv6, true)));
    EXPECT_FALSE(reach(roce(ipv4, true), roce(ipv6, true)));
    EXPECT_FALSE(reach(roce(ipv4, true), roce(ipv4, false)));
    EXPECT_TRUE(reach(roce(ipv4, false), roce(ipv6, false))) << "to v1 they are only numbers";
    EXPECT_FALSE(reach(roce(ipv6, true), infiniband(0)));
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
}

}  // namespace
}  // namespace tern
