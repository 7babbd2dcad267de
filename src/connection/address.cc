// SPDX-License-Identifier: BSD-3-Clause
#include "connection/address.h"

#include <algorithm>
#include <cstdio>

#include "connection/little_endian.h"
#include "verbs/gid.h"

namespace tern {
namespace {

enum PortFlags : uint8_t {
    kHasLid = 1,
    kHasGid = 2,
    kEthernet = 4,
    kRoceV2 = 8,
    kGlobal = 16,
    kKnownFlags = 31,
};

constexpr uint16_t kFirstMulticastLid = 0xc000;
constexpr uint8_t kMulticastGid = 0xff;

// Addresses a single port, with the fields that its link layer needs.
bool is_unicast(const PortAddress& port) {
    if (!port.has_gid && (!port.has_lid || port.ethernet || port.global)) return false;
    if (port.roce_v2 && !port.ethernet) return false;
    if (port.has_lid && (port.lid == 0 || port.lid >= kFirstMulticastLid)) return false;
    return !port.has_gid || (port.gid[0] != kMulticastGid && port.gid != std::array<uint8_t, 16>{});
}

ibv_gid gid_of(const PortAddress& port) {
    ibv_gid gid{};
    std::copy(port.gid.begin(), port.gid.end(), gid.raw);
    return gid;
}

}  // namespace

size_t PortAddress::packed_size(std::byte first) {
    const auto flags = static_cast<uint8_t>(first);
    return 1 + ((flags & kHasLid) != 0 ? 2 : 0) + ((flags & kHasGid) != 0 ? 16 : 0);
}

void PortAddress::pack(std::byte* out) const {
    *out++ =
        std::byte((has_lid ? kHasLid : 0) | (has_gid ? kHasGid : 0) | (ethernet ? kEthernet : 0) |
                  (roce_v2 ? kRoceV2 : 0) | (global ? kGlobal : 0));
    if (has_lid) {
        put_little_endian<2>(out, lid);
        out += 2;
    }
    if (has_gid) std::copy_n(reinterpret_cast<const std::byte*>(gid.data()), gid.size(), out);
}

std::optional<PortAddress> PortAddress::unpack(std::span<const std::byte> in) {
    if (in.empty()) return {};
    const auto flags = static_cast<uint8_t>(in[0]);
    PortAddress port;
    port.has_lid = flags & kHasLid;
    port.has_gid = flags & kHasGid;
    port.ethernet = flags & kEthernet;
    port.roce_v2 = flags & kRoceV2;
    port.global = flags & kGlobal;
    if ((flags & ~kKnownFlags) != 0 || in.size() < port.packed_size()) return {};
    const std::byte* next = &in[1];
    if (port.has_lid) {
        port.lid = static_cast<uint16_t>(get_little_endian<2>(next));
        next += 2;
    }
    if (port.has_gid) std::copy_n(reinterpret_cast<const uint8_t*>(next), 16, port.gid.begin());
    if (!is_unicast(port)) return {};
    return port;
}

const char* PortAddress::unreachable(const PortAddress& peer) const {
    if (ethernet != peer.ethernet) return "one port is on InfiniBand, the other on Ethernet";
    if (ethernet) {
        if (roce_v2 != peer.roce_v2) return "one port uses RoCE v1, the other RoCE v2";
        if (roce_v2 && verbs::is_ipv4(gid_of(*this)) != verbs::is_ipv4(gid_of(peer)))
            return "one port has an IPv4 address, the other an IPv6 address";
        return nullptr;
    }
    const bool both_gids = has_gid && peer.has_gid;
    // Routers between subnets forward only packets with a GRH.
    if (both_gids && global && peer.global) return nullptr;
    if (both_gids && !std::equal(gid.begin(), gid.begin() + 8, peer.gid.begin()))
        return "the ports are on different subnets";
    if ((global || peer.global) && !both_gids)
        return "a port needs a global routing header, and the other has no GID";
    if (!has_lid || !peer.has_lid) return "a port has no LID, and does not use a GRH";
    return nullptr;
}

ibv_ah_attr address_vector(const verbs::Port& port, const PortAddress& to) {
    return port.address_vector(to.lid, gid_of(to), to.has_gid && (port.global || to.global));
}

std::string PortAddress::to_string() const {
    std::string text;
    char part[8];
    if (has_lid) {
        std::snprintf(part, sizeof part, "%u", lid);
        text.append("lid ").append(part);
    }
    if (!has_gid) return text.empty() ? "nowhere" : text;
    text.append(text.empty() ? "gid " : " gid ");
    for (size_t i = 0; i < gid.size(); i += 2) {
        std::snprintf(part, sizeof part, i == 0 ? "%x" : ":%x", gid[i] << 8 | gid[i + 1]);
        text += part;
    }
    return text;
}

void InterfaceAddress::pack(std::byte* out) const {
    put_little_endian<3>(out, qp_num);
    put_little_endian<5>(out + 3, instance);
}

InterfaceAddress InterfaceAddress::unpack(const std::byte* in) {
    return {static_cast<uint32_t>(get_little_endian<3>(in)), get_little_endian<5>(in + 3)};
}

std::string PeerAddress::to_string() const {
    char text[32];
    std::snprintf(text, sizeof text, " qp %u", interface.qp_num);
    return port.to_string() + text;
}

}  // namespace tern
