// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/verbs/address.h"

#include <arpa/inet.h>
#include <endian.h>

#include <cstring>

#include "softhca/fabric/layout.h"

namespace softhca {

namespace {

// Locally administered: 02:73:66 ff:fe 00:00:LL.
constexpr uint64_t kGuidBase = 0x027366fffe000000;
constexpr uint64_t kLinkLocalPrefix = 0xfe80000000000000;
constexpr uint32_t kIpv4Base = 0x0a480001;  // 10.72.0.1 and up
constexpr uint32_t kIpv4Mapped = 0x0000ffff;

}  // namespace

uint64_t port_guid(uint32_t link) {
    return htobe64(kGuidBase + link + 1);
}

union ibv_gid port_gid(uint32_t link, int index) {
    union ibv_gid gid = {};
    if (index == 0) {
        gid.global.subnet_prefix = htobe64(kLinkLocalPrefix);
        gid.global.interface_id = port_guid(link);
        return gid;
    }
    const uint32_t mapped = htonl(kIpv4Mapped);
    const uint32_t address = htonl(kIpv4Base + link);
    std::memcpy(gid.raw + 8, &mapped, sizeof mapped);
    std::memcpy(gid.raw + 12, &address, sizeof address);
    return gid;
}

uint32_t link_of_gid(const union ibv_gid& gid) {
    for (uint32_t link = 0; link < kMaxLinks; ++link) {
        for (int index = 0; index < kGidsPerPort; ++index) {
            const union ibv_gid candidate = port_gid(link, index);
            if (std::memcmp(gid.raw, candidate.raw, sizeof gid.raw) == 0) return link;
        }
    }
    return Destination::kNoLink;
}

uint32_t link_of_address(const ibv_ah_attr& address) {
    if (address.dlid != 0)
        return address.dlid <= kMaxLinks ? address.dlid - 1u : Destination::kNoLink;
    return address.is_global != 0 ? link_of_gid(address.grh.dgid) : Destination::kNoLink;
}

Destination make_destination(const ibv_ah_attr& address, uint32_t link, bool ethernet) {
    Destination to;
    to.link = link_of_address(address);
    to.slid = ethernet ? 0 : port_lid(link);
    to.global = address.is_global != 0;
    if (to.global) {
        const union ibv_gid source = port_gid(link, address.grh.sgid_index);
        std::memcpy(to.source_gid, source.raw, sizeof to.source_gid);
        std::memcpy(to.target_gid, address.grh.dgid.raw, sizeof to.target_gid);
        to.traffic_class = address.grh.traffic_class;
        to.hop_limit = address.grh.hop_limit;
        to.flow_label = address.grh.flow_label & 0xfffff;
    }
    return to;
}

}  // namespace softhca
