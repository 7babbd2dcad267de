// SPDX-License-Identifier: BSD-3-Clause
#include "tools/tern_bench/fit.h"

#include <limits>

namespace tern::bench {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

Line fit_line(const std::vector<Timing>& timings) {
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
    double slope = spread > 0 ? (ones * xy - x * y) / spread : 0;
    double constant = ones > 0 ? (y - slope * x) / ones : 0;
    if (constant < 0) {
        constant = 0;
        slope = xy / xx;
    }
    if (slope <= 0) return {y / ones, kInfinite};
    return {constant, 1 / slope};
}

}  // namespace tern::bench
