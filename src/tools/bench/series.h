// SPDX-License-Identifier: BSD-3-Clause
// One thing measured in every round, to be compared with another one round by round: what disturbs
// the machine disturbs both.
#pragma once

#include <cstddef>

#include "statistics.h"

namespace softhca::bench {

struct Series {
    Samples all;
    Samples medians;  ///< of the rounds

    /// Ignores empty rounds, those of the process that answers.
    void add(const Samples& round) {
        if (round.empty()) return;
        append(&all, round);
        medians.push_back(median(round));
    }
    void add(double sample) { add(Samples{sample}); }
};

/// Median of the rounds' ratios.
inline double ratio(const Series& measured, const Series& yardstick) {
    Samples ratios;
    for (size_t i = 0; i < measured.medians.size(); ++i) {
        ratios.push_back(measured.medians[i] / yardstick.medians[i]);
    }
    return median(ratios);
}

}  // namespace softhca::bench
