// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bench/tern-bench/options.h"

namespace bench {

// Of long messages: equal steps, about as wide as asked for, that meet all powers of two. Whole
// words.
inline std::vector<uint32_t> long_sizes(const Options& options) {
    const double step = options.quick ? std::max(options.step, 8.0) : options.step;
    const double doublings = std::log2(step);
    const double wide = doublings < 1 ? 1 / std::round(1 / doublings) : std::round(doublings);
    std::vector<uint32_t> sizes;
    for (double power = std::ceil(std::log2(options.low) / wide - 1e-9) * wide;; power += wide) {
        const auto size = static_cast<uint32_t>(std::round(std::exp2(power) / 8) * 8);
        if (size > options.high) break;
        sizes.push_back(size);
    }
    if (sizes.empty()) sizes.push_back(options.low / 8 * 8);
    return sizes;
}

}  // namespace bench
