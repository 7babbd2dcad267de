// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdio>

#include "bench/measure/columns.h"
#include "bench/tern-bench/figure.h"

namespace bench {
namespace {

std::vector<std::string> names_of(const std::vector<Figure>& figures, const std::string& test,
                                  bool ratios) {
    std::vector<std::string> names;
    for (const Figure& figure : figures) {
        if (figure.test == test && figure.is_ratio() == ratios &&
            std::ranges::find(names, figure.name) == names.end())
            names.push_back(figure.name);
    }
    return names;
}

std::vector<std::pair<double, std::string>> sizes_of(const std::vector<Figure>& figures,
                                                     const std::string& test) {
    std::vector<std::pair<double, std::string>> sizes;
    for (const Figure& figure : figures) {
        if (figure.test == test && std::ranges::find(sizes, figure.x, [](const auto& size) {
                                       return size.first;
                                   }) == sizes.end())
            sizes.emplace_back(figure.x, figure.x_text);
    }
    return sizes;
}

std::string value_text(const Figure& figure) {
    char text[64];
    if (figure.is_ratio()) {
        std::snprintf(text, sizeof text, "%.2f (%.2f..%.2f)%s", figure.value.median,
                      figure.value.p10, figure.value.p90,
                      figure.has_target() && !figure.met() ? " <" : "");
    } else {
        std::snprintf(text, sizeof text, "%s%s%s", number_text(figure.value.median).c_str(),
                      figure.has_target() && !figure.met() ? "<" : "",
                      figure.doubts.empty() ? " " : "?");
    }
    return text;
}

// What is doubted in one line of the table: whose operations were late, and anything else.
std::string remarks(const std::vector<const Figure*>& line) {
    std::string late;
    std::vector<std::string> others;
    for (const Figure* figure : line) {
        for (const std::string& doubt : figure->doubts) {
            if (doubt.starts_with("late")) {
                late += (late.empty() ? "late: " : ", ") + figure->name + doubt.substr(4);
                continue;
            }
            const std::string kind = doubt.substr(0, doubt.find_first_of("0123456789"));
            if (std::ranges::find(others, kind) == others.end()) others.push_back(kind);
        }
    }
    for (std::string& other : others) {
        if (other.ends_with(' ')) other = "had no CPU at times";
        late += (late.empty() ? "" : "; ") + other;
    }
    return late;
}

std::string part(const std::vector<Figure>& figures, const std::string& test, bool ratios) {
    const std::vector<std::string> names = names_of(figures, test, ratios);
    if (names.empty()) return {};
    std::string unit;
    for (const Figure& figure : figures) {
        if (figure.test == test && figure.is_ratio() == ratios) unit = figure.unit;
    }
    std::vector<Cells> lines = {{ratios ? "ratios of " + test : test + ", " + unit}};
    lines.front().insert(lines.front().end(), names.begin(), names.end());
    lines.front().emplace_back();
    for (const auto& [x, x_text] : sizes_of(figures, test)) {
        Cells cells = {"  " + x_text};
        std::vector<const Figure*> line;
        for (const std::string& name : names) {
            const auto found = std::ranges::find_if(figures, [&, at = x](const Figure& figure) {
                return figure.test == test && figure.x == at && figure.name == name;
            });
            cells.push_back(found == figures.end() ? "" : value_text(*found));
            if (found != figures.end()) line.push_back(&*found);
        }
        cells.push_back(ratios ? std::string() : remarks(line));
        lines.push_back(std::move(cells));
    }
    const std::string layout = "l" + std::string(names.size(), 'r') + "l";
    return in_columns(lines, layout.c_str());
}

std::string targets(const std::vector<Figure>& figures, const std::string& test) {
    std::string text;
    std::vector<std::string> names = names_of(figures, test, false);
    for (std::string& name : names_of(figures, test, true)) names.push_back(std::move(name));
    for (const std::string& name : names) {
        int met = 0;
        int all = 0;
        std::string missed;
        for (const Figure& figure : figures) {
            if (figure.test != test || figure.name != name || !figure.has_target()) continue;
            ++all;
            met += figure.met();
            if (figure.met()) continue;
            char miss[64];
            std::snprintf(miss, sizeof miss, "%s%s (%.2f, target %.2f)",
                          missed.empty() ? "; missed at " : ", ", figure.x_text.c_str(),
                          figure.value.median, figure.target);
            missed += miss;
        }
        if (all == 0) continue;
        text += name + ": target met at " + std::to_string(met) + " of " + std::to_string(all) +
                " sizes" + missed + "\n";
    }
    return text.empty() ? text : text + "\n";
}

}  // namespace

std::string as_matrix(const std::vector<Figure>& figures) {
    std::vector<std::string> tests;
    for (const Figure& figure : figures) {
        if (std::ranges::find(tests, figure.test) == tests.end()) tests.push_back(figure.test);
    }
    std::string text;
    for (const std::string& test : tests) {
        for (const bool ratios : {false, true}) {
            const std::string one = part(figures, test, ratios);
            if (!one.empty()) text += one + "\n";
        }
        text += targets(figures, test);
    }
    return text;
}

}  // namespace bench
