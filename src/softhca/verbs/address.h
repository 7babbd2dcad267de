// SPDX-License-Identifier: BSD-3-Clause
// Names of ports: LIDs, GUIDs and GIDs, and what an address resolves to.
#pragma once

#include <cstdint>

#include "fabric/layout.h"
#include "transport/wqe.h"
#include "verbs/export.h"

namespace softhca {

constexpr int kGidsPerPort = 2;  ///< link-local, and the IPv4-mapped one of Ethernet ports

/// How many of them a port has, at indices from 0 on.
inline int gids_of(LinkLayer layer) {
    return layer == LinkLayer::ethernet ? kGidsPerPort : 1;
}

/// How many entries its table has: the last one is not set, as most of a card's are not.
inline int gid_table_of(LinkLayer layer) {
    return gids_of(layer) + 1;
}

inline uint16_t port_lid(uint32_t link) {
    return static_cast<uint16_t>(link + 1);
}

/// GUID of a port (`link`), in network byte order.
uint64_t port_guid(uint32_t link);
union ibv_gid port_gid(uint32_t link, int index);
/// The port a GID names; Destination::kNoLink if none.
uint32_t link_of_gid(const union ibv_gid& gid);
/// The port an address vector leads to; Destination::kNoLink if there is nobody.
uint32_t link_of_address(const ibv_ah_attr& address);
/// What datagrams to `address` carry, sent from port `link`. `ethernet`: the route header is always
/// there.
Destination make_destination(const ibv_ah_attr& address, uint32_t link, bool ethernet);

}  // namespace softhca
