// SPDX-License-Identifier: BSD-3-Clause
// The result as aligned text.
#include <cstdio>

#include "bench/measure/columns.h"
#include "bench/softhca-bench/output.h"

namespace softhca::bench {
namespace {

std::string percent(double share, const char* format) {
    char text[32];
    std::snprintf(text, sizeof text, format, 100 * share);
    return text;
}

std::string target(const Row& row) {
    const std::string sign = row.is_rate() ? ">= " : "<= ";
    if (is_set(row.ratio_target)) return sign + number_text(row.ratio_target) + " x";
    if (is_set(row.target)) return sign + number_text(row.target) + " " + row.unit;
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
            number_text(value.median),
            row.unit,
            number_text(value.min),
            number_text(value.p10),
            number_text(value.p90),
            is_set(row.ratio) ? number_text(row.ratio) + " x" : "",
            target(row),
            number_text(row.model),
            is_set(row.model) ? percent(row.deviation(), "%+.1f%%") : "",
            number_text(row.machine),
            remark(row)};
}

const Cells kTitles = {"",      "median", "",      "min",       "p10",     "p90",
                       "ratio", "target", "model", "deviation", "machine", ""};

}  // namespace

std::string as_table(const std::vector<Row>& rows) {
    std::vector<Cells> lines = {kTitles};
    for (const Row& row : rows) lines.push_back(cells(row));
    return in_columns(lines, "lrlrrrrrrrrl");
}

}  // namespace softhca::bench
