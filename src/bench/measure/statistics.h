// SPDX-License-Identifier: BSD-3-Clause
// What is reported of many samples.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace bench {

/// A number that there is not.
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
    uint64_t count;
};

/// At least one sample is needed.
Summary summarize(Samples samples);
double median(Samples samples);

/// Adds the samples of one round to those of all.
void append(Samples* all, const Samples& round);

}  // namespace bench
