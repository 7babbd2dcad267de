// SPDX-License-Identifier: BSD-3-Clause
// Results, what makes them doubtful, and their output as tables and JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/report/statistics.h"
#include "bench/report/text.h"

namespace report {

constexpr char kRatioUnit = 'x';
constexpr double kLateShare = 0.05;

// One measured, counted or calculated value, or one ratio.
struct Figure {
    std::string test;  // "UCT active messages, half round trip"
    double x = 0;      // message size or number of peers: the x axis of a plot
    std::string x_text;
    std::string name;  // "tern"; for a ratio "tern / rc_verbs"
    std::string unit;  // kRatioUnit for a ratio
    Summary value = {};
    Samples rounds = {};        // of a sampled value: the median of each round, or the ratio
    double late_share = kNone;  // of the operations, those later than the device's timing model
    double cpu_share = kNone;
    std::vector<std::string> doubts = {};  // why the value is doubtful

    bool is_ratio() const { return unit.size() == 1 && unit[0] == kRatioUnit; }
    // The device could not keep up with its timing model: the value is that of the machine.
    bool refused() const { return late_share > kLateShare; }
};

// A value that is counted or calculated, not sampled.
Figure exact_figure(std::string test, double x, std::string x_text, std::string name,
                    std::string unit, double value);
// A value that is counted or calculated for a size in bytes.
Figure exact_figure(std::string test, uint64_t bytes, std::string name, std::string unit,
                    double value);

// All doubts, in a line; empty if there are none.
std::string doubts_text(const Figure& figure);

// A line for each figure, grouped by test and x.
std::string as_table(const std::vector<Figure>& figures);
// For each test, and for its ratios, a line for each name and a column for each x.
std::string as_matrix(const std::vector<Figure>& figures);
using Facts = std::vector<std::pair<std::string, std::string>>;
// One JSON object: the version of its form, this program's version and commit, the date, the
// machine, the facts, the sizes, and a list "figures". Missing and infinite numbers are left out.
// `gaps` says what the figures lack, if anything.
std::string as_json(const Facts& facts, const std::vector<Figure>& figures,
                    const std::vector<std::string>& gaps = {});

// Replaces a file by one with this text, in one step: whatever fails, the old file is whole and
// nothing else is left in the folder. What is no regular file, as /dev/stdout, is written to.
// Throws Failure.
void write_file(const std::string& name, const std::string& text);
// Throws Failure if write_file() would. Changes nothing.
void check_writable(const std::string& name);

// What the rounds of a measurement say: ratios, and reasons for doubt.

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
// as many of one as of the other.
inline Figure ratio_figure(Figure figure, const Samples& item, const Samples& yardstick) {
    Samples ratios;
    for (size_t i = 0; i < item.size(); ++i) ratios.push_back(item[i] / yardstick[i]);
    figure.unit.assign(1, kRatioUnit);
    figure.value = summarize(ratios);
    figure.rounds = ratios;
    if (ratios.size() < kFewRounds) figure.doubts.emplace_back("few rounds");
    if (is_wide(ratios, kWideRatio)) figure.doubts.emplace_back("rounds differ");
    return figure;
}

}  // namespace report
