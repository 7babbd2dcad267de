// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include "bench/report/figure.h"

namespace report {
namespace {

void add_once(std::vector<std::string>* values, const std::string& value) {
    if (std::ranges::find(*values, value) == values->end()) values->push_back(value);
}

// The cells of a table of figures.

// Counts have no decimals.
std::string median_text(const Figure& figure) {
    if (figure.refused()) return "late";
    const double value = figure.value.median;
    const bool sampled = figure.value.count > 1 || value != std::floor(value);
    return sampled ? number_text(value) : formatted("%.0f", value);
}

// A line of as_table().
Cells cells(const Figure& figure) {
    const bool sampled = figure.value.count > 1 && !figure.refused();
    return {"  " + figure.name,
            median_text(figure),
            figure.unit,
            sampled ? number_text(figure.value.p10) : "",
            sampled ? number_text(figure.value.p90) : "",
            doubts_text(figure)};
}

// The cell of a matrix.
std::string cell(const Figure& figure) {
    if (figure.refused()) return "late";
    return number_text(figure.value.median) + (figure.doubts.empty() ? "" : "?");
}

// A test's ratios have a table of their own.
bool same_table(const Figure& one, const Figure& other) {
    return one.test == other.test && one.unit == other.unit;
}

}  // namespace

Figure exact_figure(std::string test, double x, std::string x_text, std::string name,
                    std::string unit, double value) {
    return {std::move(test),   x,
            std::move(x_text), std::move(name),
            std::move(unit),   {value, value, value, value, value, 1}};
}

Figure exact_figure(std::string test, uint64_t bytes, std::string name, std::string unit,
                    double value) {
    return exact_figure(std::move(test), static_cast<double>(bytes),
                        size_text(static_cast<uint32_t>(bytes)), std::move(name), std::move(unit),
                        value);
}

std::string doubts_text(const Figure& figure) {
    std::string text;
    for (const std::string& doubt : figure.doubts) text += (text.empty() ? "? " : ", ") + doubt;
    return text;
}

std::string as_table(const std::vector<Figure>& figures) {
    const bool sampled =
        std::ranges::any_of(figures, [](const Figure& one) { return one.value.count > 1; });
    const Cells titles = {"", sampled ? "median" : "value", "", "p10", "p90", ""};
    std::vector<Cells> lines = {titles};
    std::string group;
    for (const Figure& figure : figures) {
        const std::string title = figure.test + ", " + figure.x_text;
        if (title != group) {
            lines.emplace_back(titles.size());
            lines.back().front() = group = title;
        }
        lines.push_back(cells(figure));
    }
    return in_columns(lines, "lrlrrl");
}

std::string as_matrix(const std::vector<Figure>& figures) {
    std::string text;
    for (auto any = figures.begin(); any != figures.end(); ++any) {
        const auto is_here = [&](const Figure& figure) { return same_table(*any, figure); };
        if (std::find_if(figures.begin(), any, is_here) != any) continue;
        std::vector<Cells> lines = {
            {any->is_ratio() ? "ratios of " + any->test
                             : any->test + (any->unit.empty() ? "" : ", " + any->unit)}};
        std::vector<std::string> names;
        for (const Figure& figure : figures) {
            if (!is_here(figure)) continue;
            add_once(&lines.front(), figure.x_text);
            add_once(&names, figure.name);
        }
        for (const std::string& name : names) {
            Cells& line = lines.emplace_back(lines.front().size());
            line.front() = "  " + name;
            for (const Figure& figure : figures)
                if (is_here(figure) && figure.name == name)
                    line[std::ranges::find(lines.front(), figure.x_text) - lines.front().begin()] =
                        cell(figure);
        }
        text += in_columns(lines, "l" + std::string(lines.front().size() - 1, 'r')) + "\n";
    }
    return text;
}

}  // namespace report
