// SPDX-License-Identifier: BSD-3-Clause
// What a value of UCX_TLS means for Tern. Pure.
#pragma once

#include <algorithm>
#include <string_view>

namespace tern {

// Calls `visit` with each transport of the list, without what UCX takes for "exactly this" and "as
// a helper" (\rc, ud:aux).
template <typename Visit>
void for_each_transport(std::string_view list, Visit&& visit) {
    while (!list.empty()) {
        const size_t end = std::min(list.find(','), list.size());
        std::string_view name = list.substr(0, end);
        if (name.starts_with('\\')) name.remove_prefix(1);
        visit(name.substr(0, name.find(':')));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
}

// An empty list is the default of tern-run, which has Tern.
inline bool names_tern(std::string_view list) {
    const bool all_but = list.starts_with('^');
    bool named = list.empty() || list == "all";
    for_each_transport(list.substr(all_but ? 1 : 0),
                       [&](std::string_view name) { named |= name == "tern" || name == "all"; });
    return all_but ? !named : named;
}

// Whether UCX may take another transport to another process.
inline bool allows_others(std::string_view list) {
    constexpr std::string_view kOurs = TERN_OTHER_TLS;  // the default from UCX 1.18 on
    if (list.starts_with('^')) return list != kOurs;
    bool others = false;
    for_each_transport(list, [&](std::string_view name) {
        others |= name != "tern" && name != "self" && !name.starts_with("cuda") &&
                  !name.starts_with("rocm") && !name.starts_with("ze");
    });
    return others;
}

}  // namespace tern
