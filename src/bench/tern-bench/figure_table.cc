// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/measure/columns.h"
#include "bench/tern-bench/figure.h"

namespace bench {
namespace {

std::string verdict(const Figure& figure) {
    if (!figure.has_target()) return {};
    char text[48];
    std::snprintf(text, sizeof text, "%s %.2f: %s", figure.at_most ? "<=" : ">=", figure.target,
                  figure.met() ? "met" : "missed");
    return text;
}

std::string remark(const Figure& figure) {
    std::string text;
    for (const std::string& doubt : figure.doubts) text += (text.empty() ? "? " : ", ") + doubt;
    return text;
}

std::string spread(double value, const Figure& figure) {
    return figure.value.count > 1 ? number_text(value) : std::string();
}

// What is counted has no decimals.
std::string value_text(const Figure& figure) {
    const double value = figure.value.median;
    if (figure.value.count > 1 || value != std::floor(value)) return number_text(value);
    char text[32];
    std::snprintf(text, sizeof text, "%.0f", value);
    return text;
}

Cells cells(const Figure& figure) {
    return {"  " + figure.name,
            value_text(figure),
            figure.unit,
            spread(figure.value.p10, figure),
            spread(figure.value.p90, figure),
            verdict(figure),
            number_text(figure.reference),
            remark(figure)};
}

}  // namespace

Figure exact_figure(std::string test, double x, std::string x_text, std::string name,
                    std::string unit, double value) {
    Figure figure;
    figure.test = std::move(test);
    figure.x = x;
    figure.x_text = std::move(x_text);
    figure.name = std::move(name);
    figure.unit = std::move(unit);
    figure.value = {value, value, value, value, 1};
    return figure;
}

std::string as_table(const std::vector<Figure>& figures) {
    const bool sampled =
        std::ranges::any_of(figures, [](const Figure& one) { return one.value.count > 1; });
    std::vector<Cells> lines = {
        {"", sampled ? "median" : "value", "", "p10", "p90", "target", "paper", ""}};
    std::string group;
    for (const Figure& figure : figures) {
        const std::string title = figure.test + ", " + figure.x_text;
        if (title != group) lines.push_back({title, "", "", "", "", "", "", ""});
        group = title;
        lines.push_back(cells(figure));
    }
    return in_columns(lines, "lrlrrlrl");
}

}  // namespace bench
