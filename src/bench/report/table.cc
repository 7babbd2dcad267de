// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include "bench/report/figure.h"

namespace report {
namespace {

void append(std::string* list, const char* separator, const std::string& entry) {
    list->append(list->empty() ? "" : separator).append(entry);
}

template <typename Value>
void add_once(std::vector<Value>* values, const Value& value) {
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

using Names = std::vector<std::string>;
using Chosen = std::vector<const Figure*>;

// Those that `chooses` is true of.
template <typename Chooses>
Chosen chosen(const std::vector<Figure>& figures, Chooses&& chooses) {
    Chosen result;
    for (const Figure& figure : figures) {
        if (chooses(figure)) result.push_back(&figure);
    }
    return result;
}

template <typename Value, typename Of>
std::vector<Value> different(const Chosen& figures, Of&& of) {
    std::vector<Value> values;
    for (const Figure* figure : figures) add_once<Value>(&values, of(*figure));
    return values;
}
Names names_of(const Chosen& figures) {
    return different<std::string>(figures, [](const Figure& figure) { return figure.name; });
}

// The cell of a matrix.
std::string cell(const Figure& figure) {
    if (figure.refused()) return "late ";
    if (figure.value.count == 1 && figure.doubts.empty() && figure.rounds.empty())
        return number_text(figure.value.median);
    if (!figure.is_ratio())
        return number_text(figure.value.median) + (figure.doubts.empty() ? " " : "?");
    return formatted("%.2f (%.2f..%.2f)", figure.value.median, figure.value.p10, figure.value.p90);
}

// The doubts about one line: the names with late operations, and all other doubts.
std::string remarks(const Chosen& line) {
    std::string late;
    Names others;
    for (const Figure* figure : line) {
        for (const std::string& doubt : figure->doubts) {
            if (doubt.starts_with("late")) {
                append(&late, ", ", figure->name + doubt.substr(4));
            } else {
                const bool cpu = doubt.starts_with("had a CPU for");
                add_once(&others, cpu ? std::string("had no CPU at times") : doubt);
            }
        }
    }
    std::string text = late.empty() ? late : "late: " + late;
    for (const std::string& other : others) append(&text, "; ", other);
    return text;
}

std::vector<Cells> transposed(const std::vector<Cells>& lines) {
    std::vector<Cells> columns(lines.front().size());
    for (const Cells& line : lines)
        for (size_t i = 0; i < columns.size(); ++i) columns[i].push_back(line[i]);
    return columns;
}

// The ratios or the values of one test. The last column has remarks, and there is no line of them.
std::string test_table(const Chosen& figures, bool names_down) {
    if (figures.empty()) return {};
    const Figure& any = *figures.back();
    const Names names = names_of(figures);
    std::vector<Cells> lines = {{any.is_ratio()
                                     ? "ratios of " + any.test
                                     : any.test + (any.unit.empty() ? "" : ", " + any.unit)}};
    lines.front().insert(lines.front().end(), names.begin(), names.end());
    const auto x_of = [](const Figure& figure) { return figure.x_text; };
    for (const std::string& x : different<std::string>(figures, x_of)) {
        Cells cells = {"  " + x};
        Chosen line;
        for (const std::string& name : names) {
            const auto found = std::ranges::find_if(figures, [&](const Figure* figure) {
                return figure->x_text == x && figure->name == name;
            });
            cells.push_back(found == figures.end() ? "" : cell(**found));
            if (found != figures.end() && !(*found)->is_ratio()) line.push_back(*found);
        }
        if (!names_down) cells.push_back(remarks(line));
        lines.push_back(std::move(cells));
    }
    if (names_down)
        lines = transposed(lines);
    else
        lines.front().emplace_back();
    return in_columns(lines,
                      "l" + std::string(lines.front().size() - 2, 'r') + (names_down ? "r" : "l")) +
           "\n";
}

Names tests_of(const std::vector<Figure>& figures) {
    return different<std::string>(chosen(figures, [](const Figure&) { return true; }),
                                  [](const Figure& figure) { return figure.test; });
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

std::string as_matrix(const std::vector<Figure>& figures, bool names_down) {
    std::string text;
    for (const std::string& test : tests_of(figures)) {
        for (const bool ratios : {true, false}) {
            const Chosen part = chosen(figures, [&](const Figure& figure) {
                return figure.test == test && figure.is_ratio() == ratios;
            });
            text += test_table(part, names_down);
        }
    }
    return text;
}

}  // namespace report
