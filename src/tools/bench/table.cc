// SPDX-License-Identifier: BSD-3-Clause
// The result as aligned text.
#include <algorithm>
#include <cstdio>

#include "output.h"

namespace softhca::bench {
namespace {

using Cells = std::vector<std::string>;

std::string number(double value) {
    if (!is_set(value)) return {};
    char text[32];
    std::snprintf(text, sizeof text, value < 100 ? "%.3f" : "%.1f", value);
    return text;
}

std::string percent(double share, const char* format) {
    char text[32];
    std::snprintf(text, sizeof text, format, 100 * share);
    return text;
}

std::string target(const Row& row) {
    const std::string sign = row.is_rate() ? ">= " : "<= ";
    if (is_set(row.ratio_target)) return sign + number(row.ratio_target) + " x";
    if (is_set(row.target)) return sign + number(row.target) + " " + row.unit;
    return {};
}

std::string remark(const Row& row) {
    std::string text;
    if (row.late()) text = "late (" + percent(row.late_share, "%.0f%%)");
    if (row.machine_bound()) text += text.empty() ? "machine-bound" : ", machine-bound";
    return text;
}

Cells cells(const Row& row) {
    const Summary& value = row.value;
    return {row.label,
            number(value.median),
            row.unit,
            number(value.min),
            number(value.p10),
            number(value.p90),
            is_set(row.ratio) ? number(row.ratio) + " x" : "",
            target(row),
            number(row.model),
            is_set(row.model) ? percent(row.deviation(), "%+.1f%%") : "",
            number(row.machine),
            remark(row)};
}

const Cells kTitles = {"",      "median", "",      "min",       "p10",     "p90",
                       "ratio", "target", "model", "deviation", "machine", ""};

}  // namespace

std::string as_table(const std::vector<Row>& rows) {
    std::vector<Cells> lines = {kTitles};
    for (const Row& row : rows) lines.push_back(cells(row));
    std::vector<size_t> widths(kTitles.size(), 0);
    for (size_t column = 0; column < widths.size(); ++column) {
        // A column of nothing but its title is left out.
        for (size_t i = 1; i < lines.size(); ++i) {
            widths[column] = std::max(widths[column], lines[i][column].size());
        }
        if (widths[column] != 0) widths[column] = std::max(widths[column], kTitles[column].size());
    }
    std::string text;
    for (const Cells& line : lines) {
        for (size_t column = 0; column < widths.size(); ++column) {
            if (widths[column] == 0) continue;
            const std::string padding(widths[column] - line[column].size(), ' ');
            const bool flush_left = column == 0 || column == 2 || column + 1 == widths.size();
            text += (column == 0 ? "" : "  ");
            text += flush_left ? line[column] + padding : padding + line[column];
        }
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    return text;
}

}  // namespace softhca::bench
