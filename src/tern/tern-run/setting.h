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

// What a list of transports lets UCX use.
struct TransportList {
    explicit TransportList(std::string_view list) {
        // An empty list is the default of tern-run.
        const bool all_but = list.starts_with('^');
        bool all = list.empty();
        bool tern = false, tcp = false, ib = false, others = false;
        for_each_transport(list.substr(all_but ? 1 : 0), [&](std::string_view name) {
            all |= name == "all";
            tern |= name == "tern";
            ib |= name == "ib";
            tcp |= name == "tcp";
            const bool all_shared = is_any_of(name, {"sm", "shm"});
            const bool shared =
                all_shared || is_any_of(name, {"mm", "posix", "sysv", "cma", "knem", "xpmem"});
            shared_memory |= all_but ? all_shared : shared;
            others |= !shared && !is_any_of(name, {"tern", "self", "gdr_copy"}) &&
                      !name.starts_with("cuda") && !name.starts_with("rocm") &&
                      !name.starts_with("ze");
        });
        names_tern = all_but ? !all && !tern : all || tern;
        networks = all_but ? !(ib && tcp) : others;
        shared_memory = list.empty() || list == "all" || all_but != shared_memory;
    }

    bool names_tern = false;
    bool networks = false;       // another transport to other machines
    bool shared_memory = false;  // between the processes of a machine

  private:
    static bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
        return std::ranges::find(names, name) != names.end();
    }
};

}  // namespace tern
