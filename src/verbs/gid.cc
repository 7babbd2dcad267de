// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/gid.h"

#include <algorithm>
#include <iterator>

namespace tern::verbs {

namespace {

constexpr uint8_t kIpv4Mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// The higher, the better.
int rank(const GidEntry& entry) {
    const int address = !is_routable(entry.gid) ? 0 : is_ipv4(entry.gid) ? 2 : 1;
    return (entry.roce_v2 ? 3 : 0) + address;
}

}  // namespace

bool is_zero(const ibv_gid& gid) {
    return std::all_of(std::begin(gid.raw), std::end(gid.raw),
                       [](uint8_t byte) { return byte == 0; });
}

bool is_ipv4(const ibv_gid& gid) {
    return std::equal(std::begin(kIpv4Mapped), std::end(kIpv4Mapped), gid.raw);
}

bool is_link_local(const ibv_gid& gid) {
    if (is_ipv4(gid)) return gid.raw[12] == 169 && gid.raw[13] == 254;
    return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

bool is_routable(const ibv_gid& gid) {
    return !is_zero(gid) && !is_link_local(gid);
}

std::optional<uint8_t> choose_gid(std::span<const GidEntry> entries, bool ethernet) {
    if (entries.empty()) return std::nullopt;
    if (!ethernet) return entries.front().index;
    return std::max_element(entries.begin(), entries.end(),
                            [](const GidEntry& a, const GidEntry& b) { return rank(a) < rank(b); })
        ->index;
}

}  // namespace tern::verbs
