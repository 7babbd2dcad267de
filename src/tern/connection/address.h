// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "tern/verbs/gid.h"
#include "tern/verbs/port.h"

namespace tern {

// The address of a port; UCX calls it the device address. On the wire, for InfiniBand: kOwn,
// kInfiniBand and flags (1 byte), then LID (2 bytes, little endian) if kHasLid, then GID (16 bytes)
// if kHasGid, whose first half names the subnet. For Ethernet: kOwn and the families of the GIDs (1
// byte), then the GIDs in the order of their kinds: the last 4 bytes of an IPv4, 16 of an IPv6, the
// last 8 of a link-local address.
struct PortAddress {
    // UCP asserts that a device address has at most 31 bytes.
    static constexpr size_t kMaxPacked = 1 + 4 + 16 + 8;

    uint16_t lid = 0;
    bool has_lid = false;
    bool has_gid = false;
    bool global = false;    // packets to this port must carry a GRH; it has a GID
    bool ethernet = false;  // it has only `roce`
    // Not from the port itself, and not on the wire: it may have more addresses; see
    // read_device_address().
    bool incomplete = false;
    std::array<uint8_t, 16> gid{};
    verbs::GidSet roce;

    bool operator==(const PortAddress&) const = default;
    size_t packed_size() const { return packed_size(first_byte()); }
    // The size of the packed address that begins with the byte `first`.
    static size_t packed_size(std::byte first);
    // Writes packed_size() bytes.
    void pack(std::byte* out) const;
    // Decodes bytes from a peer; empty if they are malformed. Reads at most in.size() bytes.
    static std::optional<PortAddress> unpack(std::span<const std::byte> in);
    // Whether both may be addresses of one port: they are equal, or one is incomplete and agrees
    // with the other.
    bool may_be(const PortAddress& other) const;
    // Why packets of this port cannot reach `peer`; null if they can.
    const char* unreachable(const PortAddress& peer) const;
    std::string to_string() const;

  private:
    std::byte first_byte() const;
};

struct PortAddressHash {
    size_t operator()(const PortAddress& address) const {
        uint64_t hash = address.lid;
        mix(hash, address.gid);
        for (const auto& gid : address.roce.gids) mix(hash, gid);
        return static_cast<size_t>(hash);
    }

  private:
    static void mix(uint64_t& hash, const std::array<uint8_t, 16>& gid) {
        uint64_t words[2];
        memcpy(words, gid.data(), sizeof(words));
        hash = (hash ^ words[0] * 3 ^ words[1]) * 0x9e3779b97f4a7c15u;
    }
};

PortAddress port_address(const verbs::Port& port);

// The address vector with which queue pairs and address handles of `port` send to `to`, which
// unreachable() says nothing against.
ibv_ah_attr address_vector(const verbs::Port& port, const PortAddress& to);

// Identifies an interface on a port; UCX calls it the interface address. On the wire: the UD queue
// pair number (3 bytes), then the instance (5 bytes), little endian.
struct InterfaceAddress {
    static constexpr size_t kPacked = 8;

    uint32_t qp_num = 0;    // of the UD queue pair that takes handshakes, 24 bits
    uint64_t instance = 0;  // random, 40 bits: distinguishes interfaces that use one qp_num in turn

    bool operator==(const InterfaceAddress&) const = default;
    void pack(std::byte* out) const;
    static InterfaceAddress unpack(const std::byte* in);
};

// All that is needed to connect to a peer. Two interfaces have a connection for each path that they
// use, so where connections are found, each path of an interface is a peer of its own.
struct PeerAddress {
    PortAddress port;
    InterfaceAddress interface;
    uint8_t path = 0;  // below verbs::kMostPaths

    bool operator==(const PeerAddress& other) const {
        return path == other.path && has_interface_of(other);
    }
    // Two complete addresses of one interface are the same; an incomplete one finds it, too.
    bool has_interface_of(const PeerAddress& other) const {
        return interface == other.interface && port.may_be(other.port);
    }
    PeerAddress on_path(uint8_t other_path) const { return {port, interface, other_path}; }
    std::string to_string() const;
};

// The address vector for a connection of the own interface to a peer, on the peer's path. `lmc`: of
// the peer's port.
ibv_ah_attr address_vector(const verbs::Port& port, const InterfaceAddress& own,
                           const PeerAddress& peer, uint8_t lmc);

struct PeerAddressHash {
    size_t operator()(const PeerAddress& address) const {
        return static_cast<size_t>(
            ((address.interface.instance ^ uint64_t{address.interface.qp_num} << 40) +
             address.path) *
            0x9e3779b97f4a7c15u);
    }
};

// Decodes a device address that UCP hands over: a packed PortAddress, or what UCX's connection
// manager for rdma_cm says of the peer's port. UCP does not send device addresses to peers that are
// connected by socket address; it takes the address of the path that rdma_cm has found, in the form
// of UCX's own InfiniBand transports, for all transports on that device. The result is then
// incomplete: the peer's LID or one of its GIDs. Empty if the bytes are malformed. Reads as many
// bytes as the first byte says.
std::optional<PortAddress> read_device_address(const std::byte* device);

}  // namespace tern
