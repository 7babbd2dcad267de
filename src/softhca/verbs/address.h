// SPDX-License-Identifier: BSD-3-Clause
// Addresses of ports: LIDs, GUIDs and GIDs, and the lookup of ports by address.
#pragma once

#include <cstdint>

#include "softhca/fabric/host.h"
#include "softhca/fabric/layout.h"
#include "softhca/transport/wqe.h"
#include "softhca/verbs/export.h"

namespace softhca {

// Number of a port's GIDs, from index 0: link-local; on Ethernet then IPv4-mapped, and each of them
// once or twice.
inline int gids_of(const FabricConfig& config) {
    if (config.link_layer != LinkLayer::kEthernet) return 1;
    return config.personality.ports.gid_table == rule::kVersions1And2 ? 4 : 2;
}

// Size of a port's GID table. The last entry is not set, as most are not on real cards.
inline int gid_table_of(const FabricConfig& config) {
    return gids_of(config) + 1;
}

// Whether the GID at an index of an Ethernet port is for RoCE v2.
inline bool is_roce_v2(const FabricConfig& config, int index) {
    return config.personality.ports.gid_table == rule::kVersion2 ||
           (config.personality.ports.gid_table == rule::kVersions1And2 && index % 2 == 1);
}

// Whether addresses must have a GRH; ports of Ethernet need it whatever their flag says.
bool grh_required(const FabricConfig& config);
// 0; on Ethernet EINVAL if only one of the two GIDs is IPv4-mapped, or ETIMEDOUT after a wait if
// the address belongs to no port that answers.
int resolve_neighbor(Host& host, const ibv_ah_attr& address);

// GUID of a place, in network byte order.
uint64_t port_guid(uint32_t place);
union ibv_gid port_gid(const FabricConfig& config, uint32_t place, int index);
// The place of a GID, and that of an address vector; kNoPlace if there is none.
uint32_t place_of_gid(const FabricConfig& config, const union ibv_gid& gid);
uint32_t place_of_address(const FabricConfig& config, const ibv_ah_attr& address);
// Whether a GID is a multicast group's: ff00::/8, or the map of an IPv4 group, as with RoCE. And
// whether a LID is.
bool is_multicast(const union ibv_gid& gid);
bool is_multicast(uint16_t lid);
// The IPv4 address of a place, in host byte order, whatever the link layer, and the reverse.
uint32_t ipv4_of_place(uint32_t place);
uint32_t place_of_ipv4(uint32_t address);
// The port of a place; Destination::kNoLink for kNoPlace.
uint32_t link_of_place(uint32_t place);
// Whether the sending port has the LID that the address vector takes.
bool valid_path_bits(const FabricConfig& config, const ibv_ah_attr& address);
// The destination of datagrams to `address` from the place `from`.
Destination make_destination(const FabricConfig& config, const ibv_ah_attr& address, uint32_t from);

}  // namespace softhca
