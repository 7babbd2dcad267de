// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <cstddef>

namespace rwapi {

struct UcxRelease {
    unsigned major;
    unsigned minor;
    auto operator<=>(const UcxRelease&) const = default;
};

// The releases whose public headers of UCT were compared. Members were added to them only where
// there was padding, or where a mask says which members are given.
constexpr UcxRelease kFirstUcx{1, 13};
constexpr UcxRelease kLastUcx{1, 22};

// The bytes of an element of the queue of callbacks (ucs_callbackq_elem_t) in that release of UCX;
// 0: unknown. This is the one difference between these releases that UCX compiles into its users.
constexpr size_t callback_bytes(UcxRelease release) {
    if (release < kFirstUcx || release > kLastUcx) return 0;
    return release < UcxRelease{1, 16} ? 24 : 16;
}

}  // namespace rwapi
