// SPDX-License-Identifier: BSD-3-Clause
// What the rounds of a measurement say: ratios, and reasons for doubt.
#pragma once

#include <utility>

#include "bench/series/figure.h"

namespace bench {

constexpr size_t kFewRounds = 5;     // with fewer, a percentile is the value of a single round
constexpr double kOwnCpu = 0.95;     // share of the time
constexpr double kWideItem = 1.5;    // 90th percentile of the rounds' medians, divided by the 10th
constexpr double kWideRatio = 1.25;  // the same for the rounds' ratios

inline bool is_wide(const Samples& rounds, double limit) {
    const Summary summary = summarize(rounds);
    return summary.p90 > limit * summary.p10;
}

// Sets the rounds of a value, and the reasons to doubt it, given the medians of its rounds, whether
// each process had a CPU of its own, and which share of the time it was running; kNone if that does
// not matter.
inline void doubt_value(Figure* figure, const Samples& medians, bool own_cpus, double cpu_share) {
    figure->rounds = medians;
    std::vector<std::string>& doubts = figure->doubts;
    if (medians.size() < kFewRounds) doubts.emplace_back("few rounds");
    if (!own_cpus) doubts.emplace_back("one CPU for both processes");
    if (cpu_share < kOwnCpu) doubts.push_back(percent_text("had a CPU for %.0f%%", cpu_share));
    if (is_wide(medians, kWideItem)) doubts.emplace_back("rounds differ");
}

// Makes the figure a ratio: in each round, the item's median divided by the yardstick's. There are
// as many of one as of the other. The target, if there is one, is set already.
inline Figure ratio_figure(Figure figure, const Samples& item, const Samples& yardstick) {
    Samples ratios;
    for (size_t i = 0; i < item.size(); ++i) ratios.push_back(item[i] / yardstick[i]);
    figure.unit.assign(1, kRatioUnit);
    figure.value = summarize(ratios);
    figure.rounds = ratios;
    if (ratios.size() < kFewRounds) figure.doubts.emplace_back("few rounds");
    if (is_wide(ratios, kWideRatio)) figure.doubts.emplace_back("rounds differ");
    if (figure.has_target() && figure.value.p10 < figure.target &&
        figure.target < figure.value.p90) {
        figure.doubts.emplace_back("target within the spread");
    }
    return figure;
}

}  // namespace bench
