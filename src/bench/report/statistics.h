// SPDX-License-Identifier: BSD-3-Clause
// Samples, their summary, and a line through them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace report {

// Stands for a missing number.
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
inline bool is_set(double number) {
    return !std::isnan(number);
}

using Samples = std::vector<double>;

struct Summary {
    double median;
    double min;
    double p10;
    double p90;
    double max;
    uint64_t count;
};

// At least one sample is needed.
inline Summary summarize(Samples samples) {
    std::ranges::sort(samples);
    const auto quantile = [&](double share) {
        const double place = share * static_cast<double>(samples.size() - 1);
        return samples[static_cast<size_t>(std::lround(place))];
    };
    return {quantile(0.5), samples.front(), quantile(0.1),
            quantile(0.9), samples.back(),  samples.size()};
}
inline double median(Samples samples) {
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::ranges::nth_element(samples, middle);
    return *middle;
}

// The time that an operation on `bytes` took, in seconds.
struct Timing {
    double bytes;
    double seconds;
};

struct Line {
    double constant = 0;   // seconds
    double bandwidth = 0;  // bytes per second
};

// Fits constant + bytes / bandwidth with the least relative errors. Neither is negative.
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

}  // namespace report
