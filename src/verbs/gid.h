// SPDX-License-Identifier: BSD-3-Clause
// Which entry of a port's GID table is the port's address. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>

namespace tern::verbs {

// An entry that is set.
struct GidEntry {
    uint8_t index = 0;
    ibv_gid gid{};
    bool roce_v2 = false;
};

// Whether no entry is there: all zeros.
bool is_zero(const ibv_gid& gid);

// Whether routers leave packets to this address alone: fe80::/10, and 169.254.0.0/16 of IPv4.
bool is_link_local(const ibv_gid& gid);

// Whether packets with a global routing header reach the address from other subnets.
bool is_routable(const ibv_gid& gid);

// The index of the entry to use. On InfiniBand the first. On Ethernet the first of the best kind:
// RoCE v2 with an address that is routed, RoCE v2 with another, then those of other types or of
// none that is known. Empty if there are no entries.
std::optional<uint8_t> choose_gid(std::span<const GidEntry> entries, bool ethernet);

}  // namespace tern::verbs
