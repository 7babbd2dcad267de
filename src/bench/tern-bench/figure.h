// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "bench/measure/statistics.h"

namespace bench {

constexpr char kRatioUnit = 'x';

// One measured, counted or compared thing, as it is printed.
struct Figure {
    std::string test;  // "UCT active messages, half round trip"
    double x = 0;      // message size, or number of peers: what a plot has on its x axis
    std::string x_text;
    std::string name;  // who: "tern"; or of whom a ratio is: "tern / rc_verbs"
    std::string unit;  // kRatioUnit for a ratio
    Summary value = {};
    double target = kNone;
    bool at_most = true;       // what the target is
    double reference = kNone;  // what a paper found
    double late_share = kNone;
    double cpu_share = kNone;
    std::vector<std::string> doubts;  // why not to believe it

    bool is_ratio() const { return unit.size() == 1 && unit[0] == kRatioUnit; }
    bool has_target() const { return is_set(target); }
    bool met() const { return at_most ? value.median <= target : value.median >= target; }
};

// What is counted, not sampled.
Figure exact_figure(std::string test, double x, std::string x_text, std::string name,
                    std::string unit, double value);

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string as_table(const std::vector<Figure>& figures);
// A line for each size, a column for each name; the ratios, and whether targets are met, below.
std::string as_matrix(const std::vector<Figure>& figures);
std::string as_json(const Facts& facts, const std::vector<Figure>& figures);

// Draws the figures that are not ratios, a panel for each test. The ending of the file's name says
// of what kind it is: .svg or .png. Throws Failure if gnuplot is missing or fails.
struct PlotStyle {
    std::string x_label;
    bool linear = false;  // the y axis
};
void plot(const std::string& file, const PlotStyle& style, const std::vector<Figure>& figures);
// Why a file cannot be drawn; empty if it can.
std::string plot_obstacle(const std::string& file);

}  // namespace bench
