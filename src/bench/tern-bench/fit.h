// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <limits>
#include <vector>

namespace bench {

// What an operation of `bytes` took, in seconds.
struct Timing {
    double bytes;
    double seconds;
};

struct Line {
    double constant = 0;   // seconds
    double bandwidth = 0;  // bytes per second
};

// constant + bytes / bandwidth with the least relative errors; neither is negative.
inline Line fit_line(const std::vector<Timing>& timings) {
    double ones = 0;
    double x = 0;
    double y = 0;
    double xx = 0;
    double xy = 0;
    for (const auto& [bytes, seconds] : timings) {
        const double weight = 1 / (seconds * seconds);
        ones += weight;
        x += weight * bytes;
        y += weight * seconds;
        xx += weight * bytes * bytes;
        xy += weight * bytes * seconds;
    }
    const double spread = ones * xx - x * x;
    const double slope = spread > 0 ? (ones * xy - x * y) / spread : 0;
    if (slope <= 0) return {y / ones, std::numeric_limits<double>::infinity()};
    const double constant = (y - slope * x) / ones;
    return constant < 0 ? Line{0, xx / xy} : Line{constant, 1 / slope};
}

}  // namespace bench
