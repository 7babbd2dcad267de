// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/gid.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace tern::verbs {

namespace {

constexpr uint8_t kIpv4Mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr uint8_t kLinkLocalPrefix[] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0};

bool is_usual(const ibv_gid& gid) {
    return kind_of(gid) == GidKind::kLinkLocal || !is_link_local(gid);
}

void add(const GidEntry& entry, GidChoice& choice) {
    const GidKind kind = kind_of(entry.gid);
    const GidFamily family = gid_family(kind, entry.roce_v2);
    auto& gid = choice.set.gids[static_cast<size_t>(kind)];
    if (choice.set.has(family)) return;
    if (!choice.set.has(kind)) memcpy(gid.data(), entry.gid.raw, gid.size());
    if (memcmp(gid.data(), entry.gid.raw, gid.size()) != 0) return;
    choice.set.families |= static_cast<uint8_t>(1u << static_cast<unsigned>(family));
    choice.index[static_cast<size_t>(family)] = entry.index;
}

}  // namespace

std::optional<GidFamily> common_family(const GidSet& a, const GidSet& b) {
    const GidSet both{.families = static_cast<uint8_t>(a.families & b.families)};
    if (both.families == 0) return std::nullopt;
    return first_family(both);
}

GidFamily first_family(const GidSet& set) {
    return static_cast<GidFamily>(std::countr_zero(set.families));
}

bool is_zero(const ibv_gid& gid) {
    return std::all_of(std::begin(gid.raw), std::end(gid.raw),
                       [](uint8_t byte) { return byte == 0; });
}

GidKind kind_of(const ibv_gid& gid) {
    if (std::equal(std::begin(kIpv4Mapped), std::end(kIpv4Mapped), gid.raw)) return GidKind::kIpv4;
    if (std::equal(std::begin(kLinkLocalPrefix), std::end(kLinkLocalPrefix), gid.raw))
        return GidKind::kLinkLocal;
    return GidKind::kIpv6;
}

bool is_link_local(const ibv_gid& gid) {
    if (kind_of(gid) == GidKind::kIpv4) return gid.raw[12] == 169 && gid.raw[13] == 254;
    return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

GidChoice choose_gids(std::span<const GidEntry> entries) {
    GidChoice choice;
    for (const bool roce_v2 : {true, false})
        for (const GidEntry& entry : entries)
            if (entry.roce_v2 == roce_v2 && is_usual(entry.gid)) add(entry, choice);
    if (choice.set.families == 0 && !entries.empty()) add(entries.front(), choice);
    return choice;
}

}  // namespace tern::verbs
