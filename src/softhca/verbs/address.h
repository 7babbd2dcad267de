// SPDX-License-Identifier: BSD-3-Clause
// Addresses of ports: LIDs, GUIDs and GIDs, and the lookup of ports by address.
#pragma once

#include <cstdint>

#include "softhca/fabric/layout.h"
#include "softhca/transport/wqe.h"
#include "softhca/verbs/export.h"

namespace softhca {

constexpr int kGidsPerPort = 2;  // link-local; on Ethernet also IPv4-mapped

// Number of a port's GIDs, from index 0.
inline int gids_of(LinkLayer layer) {
    return layer == LinkLayer::kEthernet ? kGidsPerPort : 1;
}

// Size of a port's GID table. The last entry is not set, as most are not on real cards.
inline int gid_table_of(LinkLayer layer) {
    return gids_of(layer) + 1;
}

inline uint16_t port_lid(uint32_t link) {
    return static_cast<uint16_t>(link + 1);
}

// GUID of a port, in network byte order.
uint64_t port_guid(uint32_t link);
union ibv_gid port_gid(uint32_t link, int index);
// The port of a GID; Destination::kNoLink if there is none.
uint32_t link_of_gid(const union ibv_gid& gid);
// The port of an address vector; Destination::kNoLink if there is none.
uint32_t link_of_address(const ibv_ah_attr& address);
// The destination of datagrams to `address` from port `link`. With `ethernet`, the GRH is always
// present.
Destination make_destination(const ibv_ah_attr& address, uint32_t link, bool ethernet);

}  // namespace softhca
