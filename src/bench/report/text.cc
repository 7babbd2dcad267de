// SPDX-License-Identifier: BSD-3-Clause
#include "bench/report/text.h"

#include <algorithm>

#include "bench/report/statistics.h"

namespace report {
namespace {

// Whether only the first cell has text; this text may extend beyond its column.
bool is_heading(const Cells& line) {
    return std::ranges::all_of(line.begin() + 1, line.end(),
                               [](const std::string& cell) { return cell.empty(); });
}

}  // namespace

std::string number_text(double value) {
    return is_set(value) ? formatted(value < 100 ? "%.3f" : "%.1f", value) : std::string();
}

std::string size_text(uint32_t size) {
    constexpr uint32_t kKibi = 1 << 10;
    constexpr uint32_t kMebi = 1 << 20;
    if (size >= kMebi && size % kMebi == 0) return std::to_string(size / kMebi) + " MiB";
    if (size >= kKibi && (size % kKibi == 0 || size > 100 * kKibi))
        return std::to_string(size / kKibi) + " KiB";
    return std::to_string(size) + " B";
}

std::string in_columns(const std::vector<Cells>& lines, const std::string& layout) {
    const Cells& titles = lines.front();
    std::vector<size_t> widths(titles.size(), 0);
    for (size_t column = 0; column < widths.size(); ++column) {
        for (size_t i = 1; i < lines.size(); ++i) {
            if (is_heading(lines[i])) continue;
            widths[column] = std::max(widths[column], lines[i][column].size());
        }
        if (widths[column] != 0) widths[column] = std::max(widths[column], titles[column].size());
    }
    std::string text;
    for (const Cells& line : lines) {
        for (size_t column = 0; column < widths.size(); ++column) {
            if (widths[column] == 0) continue;
            const size_t length = std::min(widths[column], line[column].size());
            const std::string padding(widths[column] - length, ' ');
            text += (column == 0 ? "" : "  ");
            text += layout[column] == 'l' ? line[column] + padding : padding + line[column];
        }
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    return text;
}

}  // namespace report
