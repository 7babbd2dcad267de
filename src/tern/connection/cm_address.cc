// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/cm_address.h"

#include <algorithm>
#include <array>

#include "tern/connection/little_endian.h"

namespace tern {
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
    // As strict with it as with an own address.
    std::array<std::byte, PortAddress::kMaxPacked> packed;
    read.pack(packed.data());
    auto port = PortAddress::unpack(std::span(packed).first(read.packed_size()));
    if (port) port->incomplete = true;
    return port;
}

}  // namespace tern
