// SPDX-License-Identifier: BSD-3-Clause
// Which entries of a port's GID table are the port's addresses. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
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

// What a GID of Ethernet is. The kernel finds no way from one kind to another.
enum class GidKind : uint8_t {
    kIpv4,       // ::ffff:0:0/96
    kIpv6,       // any other
    kLinkLocal,  // fe80::/64
};
constexpr size_t kGidKinds = 3;

// The version of RoCE and the kind of GID with which two ports reach each other. Ports use the
// first that both have.
enum class GidFamily : uint8_t { kV2Ipv4, kV2Ipv6, kV2LinkLocal, kV1Ipv4, kV1Ipv6, kV1LinkLocal };
constexpr size_t kGidFamilies = 2 * kGidKinds;

constexpr GidFamily gid_family(GidKind kind, bool roce_v2) {
    return static_cast<GidFamily>(static_cast<size_t>(kind) + (roce_v2 ? 0 : kGidKinds));
}
constexpr GidKind kind_of(GidFamily family) {
    return static_cast<GidKind>(static_cast<size_t>(family) % kGidKinds);
}
constexpr bool is_roce_v2(GidFamily family) {
    return static_cast<size_t>(family) < kGidKinds;
}

// The GIDs of a port of Ethernet: one of each kind at most, with the families that it serves.
struct GidSet {
    uint8_t families = 0;                                   // bit i: the GidFamily i
    std::array<std::array<uint8_t, 16>, kGidKinds> gids{};  // zero if no family has the kind

    bool operator==(const GidSet&) const = default;
    bool has(GidFamily family) const {
        return (families >> static_cast<unsigned>(family) & 1) != 0;
    }
    bool has(GidKind kind) const {
        return has(gid_family(kind, false)) || has(gid_family(kind, true));
    }
    const std::array<uint8_t, 16>& of(GidKind kind) const {
        return gids[static_cast<size_t>(kind)];
    }
};

// The family that two ports use, which is the same seen from both; empty if they have none in
// common.
std::optional<GidFamily> common_family(const GidSet& a, const GidSet& b);
// The family that a port prefers; the set is not empty.
GidFamily first_family(const GidSet& set);

inline ibv_gid to_gid(const std::array<uint8_t, 16>& bytes) {
    ibv_gid gid{};
    std::copy(bytes.begin(), bytes.end(), gid.raw);
    return gid;
}

// All zeros: the entry is not set.
bool is_zero(const ibv_gid& gid);

GidKind kind_of(const ibv_gid& gid);

// Whether routers do not forward packets to this address: fe80::/10, and 169.254.0.0/16 of IPv4.
bool is_link_local(const ibv_gid& gid);

// The addresses of a port of Ethernet, and their entries.
struct GidChoice {
    GidSet set;
    std::array<uint8_t, kGidFamilies> index{};  // of each family in the set

    // The entry of the family.
    uint8_t of(GidFamily family) const { return index[static_cast<size_t>(family)]; }
};

// The first entry of each kind, an entry for RoCE v2 before others, and the entry for RoCE v1 with
// the same GID. Link-local addresses that are not of fe80::/64 count only if there is nothing else.
GidChoice choose_gids(std::span<const GidEntry> entries);

}  // namespace tern::verbs
