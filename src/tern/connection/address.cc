// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/address.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "tern/connection/little_endian.h"
#include "tern/verbs/port.h"

namespace tern {

namespace {

using verbs::GidFamily;
using verbs::GidKind;
using Gid = std::array<uint8_t, 16>;

enum PortFlags : uint8_t {
    kHasLid = 1,
    kHasGid = 2,
    kGlobal = 16,
    kInfiniBand = 64,
    kOwn = 128,  // not an address of UCX's own transports
    kInfiniBandFlags = kOwn | kInfiniBand | kHasLid | kHasGid | kGlobal,
    kFamilies = (1 << verbs::kGidFamilies) - 1,  // without kInfiniBand
    kEthernetFlags = kOwn | kFamilies,
};

constexpr uint16_t kFirstMulticastLid = 0xc000;
constexpr uint8_t kMulticastGid = 0xff;
constexpr uint8_t kMulticastIpv4 = 0xe0;  // the first four bits
constexpr std::array kKinds{GidKind::kIpv4, GidKind::kIpv6, GidKind::kLinkLocal};
constexpr std::array<size_t, verbs::kGidKinds> kBytesOfKind{4, 16, 8};

size_t bytes_of(GidKind kind) {
    return kBytesOfKind[static_cast<size_t>(kind)];
}

// The leading bytes, which are the same in all GIDs of the kind, are not sent.
Gid unpack_gid(GidKind kind, const std::byte* in) {
    Gid gid{};
    if (kind == GidKind::kIpv4) gid[10] = gid[11] = 0xff;
    if (kind == GidKind::kLinkLocal) {
        gid[0] = 0xfe;
        gid[1] = 0x80;
    }
    const size_t bytes = bytes_of(kind);
    std::copy_n(reinterpret_cast<const uint8_t*>(in), bytes, gid.end() - bytes);
    return gid;
}

void pack_gid(GidKind kind, const Gid& gid, std::byte* out) {
    const size_t bytes = bytes_of(kind);
    std::copy_n(reinterpret_cast<const std::byte*>(gid.end() - bytes), bytes, out);
}

bool is_unicast(GidKind kind, const Gid& gid) {
    if (verbs::kind_of(verbs::to_gid(gid)) != kind || gid == Gid{}) return false;
    return kind == GidKind::kIpv4 ? gid[12] != 0 && (gid[12] & 0xf0) != kMulticastIpv4
                                  : gid[0] != kMulticastGid;
}

// Addresses a single port, with the fields that its link layer needs.
bool is_unicast(const PortAddress& port) {
    if (port.ethernet)
        return port.roce.families != 0 && std::ranges::all_of(kKinds, [&](GidKind kind) {
                   return !port.roce.has(kind) || is_unicast(kind, port.roce.of(kind));
               });
    if (!port.has_gid && (!port.has_lid || port.global)) return false;
    if (port.has_lid && (port.lid == 0 || port.lid >= kFirstMulticastLid)) return false;
    return !port.has_gid || (port.gid[0] != kMulticastGid && port.gid != Gid{});
}

std::string gid_text(const Gid& gid) {
    std::string text = "gid ";
    char part[8];
    for (size_t i = 0; i < gid.size(); i += 2) {
        std::snprintf(part, sizeof part, i == 0 ? "%x" : ":%x", gid[i] << 8 | gid[i + 1]);
        text += part;
    }
    return text;
}

bool share_version(const verbs::GidSet& a, const verbs::GidSet& b) {
    const auto versions = [](const verbs::GidSet& set) {
        const int version1 = set.families >> verbs::kGidKinds;
        const int version2 = set.families ^ version1 << verbs::kGidKinds;
        return (version1 != 0 ? 1 : 0) | (version2 != 0 ? 2 : 0);
    };
    return (versions(a) & versions(b)) != 0;
}

}  // namespace

std::byte PortAddress::first_byte() const {
    if (ethernet) return std::byte(kOwn | roce.families);
    return std::byte(kOwn | kInfiniBand | (has_lid ? kHasLid : 0) | (has_gid ? kHasGid : 0) |
                     (global ? kGlobal : 0));
}

size_t PortAddress::packed_size(std::byte first) {
    const auto flags = static_cast<uint8_t>(first);
    if ((flags & kInfiniBand) != 0)
        return 1 + ((flags & kHasLid) != 0 ? 2 : 0) + ((flags & kHasGid) != 0 ? 16 : 0);
    const verbs::GidSet set{.families = static_cast<uint8_t>(flags & kFamilies)};
    size_t size = 1;
    for (const GidKind kind : kKinds)
        if (set.has(kind)) size += bytes_of(kind);
    return size;
}

void PortAddress::pack(std::byte* out) const {
    *out++ = first_byte();
    if (ethernet) {
        for (const GidKind kind : kKinds) {
            if (!roce.has(kind)) continue;
            pack_gid(kind, roce.of(kind), out);
            out += bytes_of(kind);
        }
        return;
    }
    if (has_lid) {
        put_little_endian<2>(out, lid);
        out += 2;
    }
    if (has_gid) std::copy_n(reinterpret_cast<const std::byte*>(gid.data()), gid.size(), out);
}

std::optional<PortAddress> PortAddress::unpack(std::span<const std::byte> in) {
    if (in.empty() || in.size() < packed_size(in[0])) return {};
    const auto flags = static_cast<uint8_t>(in[0]);
    const std::byte* next = &in[1];
    PortAddress port;
    port.ethernet = (flags & kInfiniBand) == 0;
    if ((flags & kOwn) == 0 || (flags & ~(port.ethernet ? kEthernetFlags : kInfiniBandFlags)) != 0)
        return {};
    if (port.ethernet) {
        port.roce.families = flags & kFamilies;
        for (const GidKind kind : kKinds) {
            if (!port.roce.has(kind)) continue;
            port.roce.gids[static_cast<size_t>(kind)] = unpack_gid(kind, next);
            next += bytes_of(kind);
        }
    } else {
        port.has_lid = flags & kHasLid;
        port.has_gid = flags & kHasGid;
        port.global = flags & kGlobal;
        if (port.has_lid) {
            port.lid = static_cast<uint16_t>(get_little_endian<2>(next));
            next += 2;
        }
        if (port.has_gid) std::copy_n(reinterpret_cast<const uint8_t*>(next), 16, port.gid.begin());
    }
    if (!is_unicast(port)) return {};
    return port;
}

bool PortAddress::may_be(const PortAddress& other) const {
    if (!incomplete && !other.incomplete) return *this == other;
    if (ethernet != other.ethernet) return false;
    if (ethernet)
        return std::ranges::any_of(kKinds, [&](GidKind kind) {
            return roce.has(kind) && other.roce.has(kind) && roce.of(kind) == other.roce.of(kind);
        });
    const bool gids = has_gid && other.has_gid;
    const bool lids = has_lid && other.has_lid;
    return (gids || lids) && (!gids || gid == other.gid) && (!lids || lid == other.lid);
}

const char* PortAddress::unreachable(const PortAddress& peer) const {
    if (ethernet != peer.ethernet) return "one port is on InfiniBand, the other on Ethernet";
    if (ethernet) {
        if (common_family(roce, peer.roce)) return nullptr;
        return share_version(roce, peer.roce)
                   ? "the ports have no kind of GID in common: IPv4, IPv6 or link-local"
                   : "one port uses RoCE v1, the other RoCE v2";
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

PortAddress port_address(const verbs::Port& port) {
    PortAddress address;
    address.ethernet = port.ethernet;
    if (port.ethernet) {
        address.roce = port.roce.set;
        return address;
    }
    address.lid = port.attributes.lid;
    address.has_lid = address.lid != 0;
    address.global = port.global;
    address.has_gid = !verbs::is_zero(port.gid);
    std::copy(std::begin(port.gid.raw), std::end(port.gid.raw), address.gid.begin());
    return address;
}

ibv_ah_attr address_vector(const verbs::Port& port, const PortAddress& to) {
    if (!port.ethernet)
        return port.address_vector(to.lid, verbs::to_gid(to.gid),
                                   to.has_gid && (port.global || to.global));
    const GidFamily family =
        common_family(port.roce.set, to.roce).value_or(first_family(port.roce.set));
    return port.address_vector(family, verbs::to_gid(to.roce.of(kind_of(family))));
}

ibv_ah_attr address_vector(const verbs::Port& port, const InterfaceAddress& own,
                           const PeerAddress& peer, uint8_t lmc) {
    ibv_ah_attr address = address_vector(port, peer.port);
    const uint64_t pair = (own.instance * 3 ^ peer.interface.instance) * 0x9e3779b97f4a7c15u >> 32;
    verbs::take_path(address, port, peer.path, lmc, pair);
    return address;
}

std::string PortAddress::to_string() const {
    std::string text;
    const auto add = [&text](const std::string& part) {
        text.append(text.empty() ? "" : " ").append(part);
    };
    if (has_lid) add("lid " + std::to_string(lid));
    if (has_gid) add(gid_text(gid));
    for (const GidKind kind : kKinds)
        if (roce.has(kind)) add(gid_text(roce.of(kind)));
    return text.empty() ? "nowhere" : text;
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
    return port.to_string() + text + (path != 0 ? " path " + std::to_string(path) : "");
}

namespace {

// The form of UCX's InfiniBand transports, the same in UCX 1.13 to 1.23 (uct/ib/base/ib_device.h,
// uct_ib_address_pack). On Ethernet: flags (1 byte), the version of RoCE in their upper bits, and
// the GID. On InfiniBand: flags, LID, then the second half of the GID if kInterfaceId, and of the
// first half the last 2 or all 8 bytes, unless it is fe80::. Options of one byte each, or two for a
// partition, follow; Tern's handshake tells what it needs of them.
enum CmFlags : uint8_t {
    kOnEthernet = 8,
    kSiteLocal = 16,  // not on Ethernet
    kPrefix = 32,     // not on Ethernet
    kInterfaceId = 64,
    kForeign = 127,  // Tern's own addresses have the other bit
};
constexpr uint8_t kSiteLocalPrefix[2] = {0xfe, 0xc0};

const uint8_t* copy_out(const uint8_t* from, size_t bytes, uint8_t* to) {
    std::copy_n(from, bytes, to);
    return from + bytes;
}

PortAddress ethernet_port(const uint8_t* next) {
    PortAddress port;
    port.ethernet = true;
    std::array<uint8_t, 16> gid;
    std::copy_n(next, gid.size(), gid.begin());
    const verbs::GidKind kind = verbs::kind_of(verbs::to_gid(gid));
    port.roce.gids[static_cast<size_t>(kind)] = gid;
    // Which version of RoCE the peer uses with it is not said.
    for (const bool v2 : {false, true})
        port.roce.families |= 1 << static_cast<unsigned>(verbs::gid_family(kind, v2));
    return port;
}

PortAddress infiniband_port(uint8_t flags, const uint8_t* next) {
    PortAddress port;
    port.lid =
        static_cast<uint16_t>(get_little_endian<2>(reinterpret_cast<const std::byte*>(next)));
    next += 2;
    port.has_lid = port.lid != 0;
    if ((flags & kInterfaceId) == 0) return port;
    // rdma_cm has found a path with a global routing header.
    port.has_gid = port.global = true;
    port.gid = {0xfe, 0x80};
    next = copy_out(next, 8, &port.gid[8]);
    if ((flags & kSiteLocal) != 0) {
        std::copy_n(kSiteLocalPrefix, 2, port.gid.begin());
        copy_out(next, 2, &port.gid[6]);
    } else if ((flags & kPrefix) != 0) {
        copy_out(next, 8, port.gid.data());
    }
    return port;
}

}  // namespace

std::optional<PortAddress> read_device_address(const std::byte* device) {
    const auto flags = static_cast<uint8_t>(*device);
    if ((flags & ~kForeign) != 0)
        return PortAddress::unpack({device, PortAddress::packed_size(*device)});
    if ((flags & kOnEthernet) == 0 && (flags & kSiteLocal) != 0 && (flags & kPrefix) != 0)
        return {};
    const auto* const next = reinterpret_cast<const uint8_t*>(device + 1);
    const PortAddress read =
        (flags & kOnEthernet) != 0 ? ethernet_port(next) : infiniband_port(flags, next);
    // Packs and unpacks it, to be as strict with it as with an address of Tern.
    std::array<std::byte, PortAddress::kMaxPacked> packed;
    read.pack(packed.data());
    auto port = PortAddress::unpack(std::span(packed).first(read.packed_size()));
    if (port) port->incomplete = true;
    return port;
}

}  // namespace tern
