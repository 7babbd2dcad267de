// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace tern::base {

// Calls `set(name, value)` for each part of a list "NAME=VALUE,NAME=VALUE"; parts may be empty.
// Returns the first part that has no "=" or that `set` refuses; empty: none.
template <class Set>
std::string_view read_named_values(std::string_view list, Set&& set) {
    while (!list.empty()) {
        const std::string_view part = list.substr(0, list.find(','));
        const size_t sign = part.find('=');
        if (!part.empty() && (sign == std::string_view::npos ||
                              !set(part.substr(0, sign), std::string(part.substr(sign + 1)))))
            return part;
        list.remove_prefix(part.size() + (part.size() < list.size()));
    }
    return {};
}

}  // namespace tern::base
