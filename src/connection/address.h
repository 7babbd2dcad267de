// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "verbs/port.h"

namespace tern {

// Where a port is: what UCX calls a device address. On the wire: flags (1 byte), then LID (2 bytes,
// little endian) if kHasLid, then GID (16 bytes) if kHasGid.
struct PortAddress {
    static constexpr size_t kMaxPacked = 1 + 2 + 16;

    uint16_t lid = 0;
    bool has_lid = false;
    bool has_gid = false;
    bool ethernet = false;
    std::array<uint8_t, 16> gid{};

    bool operator==(const PortAddress&) const = default;
    size_t packed_size() const { return 1 + (has_lid ? 2 : 0) + (has_gid ? 16 : 0); }
    // Of the packed address that begins with this byte.
    static size_t packed_size(std::byte first);
    // `out` holds packed_size() bytes.
    void pack(std::byte* out) const;
    // From bytes a peer has sent; empty if they make no sense. Reads no more than in.size().
    static std::optional<PortAddress> unpack(std::span<const std::byte> in);
    std::string to_string() const;
};

// For queue pairs and address handles of `port` that send there.
ibv_ah_attr address_vector(const verbs::Port& port, const PortAddress& to);

// Which interface on a port: what UCX calls an interface address. On the wire: the UD queue pair
// number (3 bytes), then the instance (5 bytes), little endian.
struct InterfaceAddress {
    static constexpr size_t kPacked = 8;

    uint32_t qp_num = 0;    // of the UD queue pair that takes handshakes, 24 bits
    uint64_t instance = 0;  // random, 40 bits: tells it from an earlier one with the same number

    bool operator==(const InterfaceAddress&) const = default;
    void pack(std::byte* out) const;
    static InterfaceAddress unpack(const std::byte* in);
};

// All that is needed to connect.
struct PeerAddress {
    PortAddress port;
    InterfaceAddress interface;

    bool operator==(const PeerAddress&) const = default;
    std::string to_string() const;
};

struct PeerAddressHash {
    size_t operator()(const PeerAddress& address) const {
        return static_cast<size_t>(
            (address.interface.instance ^ uint64_t{address.interface.qp_num} << 40) *
            0x9e3779b97f4a7c15u);
    }
};

}  // namespace tern
