// SPDX-License-Identifier: BSD-3-Clause
// Which entry of a port's GID table is the port's address. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>

namespace tern::verbs {

// An entry of the table that is not zero.
struct GidEntry {
    uint8_t index = 0;
    ibv_gid gid{};
    bool roce_v2 = false;
};

// All zeros: the entry is not set.
bool is_zero(const ibv_gid& gid);

// Whether routers do not forward packets to this address: fe80::/10, and 169.254.0.0/16 of IPv4.
bool is_link_local(const ibv_gid& gid);

// Whether the address is an IPv4 address in the form of an IPv6 address.
bool is_ipv4(const ibv_gid& gid);

// Whether packets with a global routing header reach the address from other subnets.
bool is_routable(const ibv_gid& gid);

// The index of the entry to use. On InfiniBand the first. On Ethernet the first of the best kind:
// RoCE v2 comes before any other type; for each, a routable IPv4 address comes first, then a
// routable IPv6 address, then any other. So nodes with both kinds of addresses agree. Empty if
// there are no entries.
std::optional<uint8_t> choose_gid(std::span<const GidEntry> entries, bool ethernet);

}  // namespace tern::verbs
