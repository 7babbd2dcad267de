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
    EXPECT_FALSE(PortAddress::unpack(bytes({9, 1, 0}))) << "an unknown flag";
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
        if (!wire.empty()) wire[0] &= std::byte{0x0f};
        const auto port = PortAddress::unpack(wire);
        if (!port) return {};
        if (port->packed_size() > wire.size()) return "an address longer than its bytes";
        wire.resize(port->packed_size());
        return packed(*port) == wire ? "" : "an address that would be sent differently";
    });
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
