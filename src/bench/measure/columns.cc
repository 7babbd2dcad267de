// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/columns.h"

#include <algorithm>
#include <cstdio>

#include "bench/measure/statistics.h"

namespace bench {

std::string in_columns(const std::vector<Cells>& lines, const char* layout) {
    const Cells& titles = lines.front();
    std::vector<size_t> widths(titles.size(), 0);
    for (size_t column = 0; column < widths.size(); ++column) {
        for (size_t i = 1; i < lines.size(); ++i) {
            widths[column] = std::max(widths[column], lines[i][column].size());
        }
        if (widths[column] != 0) widths[column] = std::max(widths[column], titles[column].size());
    }
    std::string text;
    for (const Cells& line : lines) {
        for (size_t column = 0; column < widths.size(); ++column) {
            if (widths[column] == 0) continue;
            const std::string padding(widths[column] - line[column].size(), ' ');
            text += (column == 0 ? "" : "  ");
            text += layout[column] == 'l' ? line[column] + padding : padding + line[column];
        }
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    return text;
}

std::string number_text(double value) {
    if (!is_set(value)) return {};
    char text[32];
    std::snprintf(text, sizeof text, value < 100 ? "%.3f" : "%.1f", value);
    return text;
}

}  // namespace bench
