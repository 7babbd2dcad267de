// SPDX-License-Identifier: BSD-3-Clause
// Charts as SVG within a page of HTML. The page's style sheet has the colors (kColors classes, c0,
// c1, ...).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// Text of others, as HTML, also within quotation marks.
std::string escaped(const std::string& text);

struct Point {
    size_t place;  // in Chart::places
    double value;
    double low;  // of the bar behind it
    double high;
    bool doubtful;
};
struct Curve {
    std::string name;
    size_t color;  // curves beyond kColors are dashed
    std::vector<Point> points;
};
constexpr size_t kColors = 8;

struct Chart {
    std::string axis;  // what is up and down
    bool ratios = false;
    std::vector<std::string> places;  // from left to right
    std::vector<Curve> curves;
};

// The colors' names are below it.
std::string as_svg(const Chart& chart);
std::string legend(const Chart& chart);

// One ratio in a strip whose middle is 1: `gain` is greater than 1 if it is a gain.
struct Dot {
    double gain;
    double low;
    double high;
    bool doubtful;
};
std::string as_strip(const std::vector<Dot>& dots);
// The numbers above strips.
std::string strip_scale();

}  // namespace bench
