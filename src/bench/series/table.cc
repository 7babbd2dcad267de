// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/series/figure.h"

namespace bench {
namespace {

template <typename... Values>
std::string formatted(const char* format, Values... values) {
    char text[96];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

void append(std::string* list, const char* separator, const std::string& entry) {
    list->append(list->empty() ? "" : separator).append(entry);
}

template <typename Value>
void add_once(std::vector<Value>* values, const Value& value) {
    if (std::ranges::find(*values, value) == values->end()) values->push_back(value);
}

// Whether only the first cell has text; this text may extend beyond its column.
bool is_heading(const Cells& line) {
    return std::ranges::all_of(line.begin() + 1, line.end(),
                               [](const std::string& cell) { return cell.empty(); });
}

// The cells of a table of figures.

std::string verdict(const Figure& figure) {
    if (!figure.has_target()) return {};
    return formatted("%s %.2f: %s", figure.at_most ? "<=" : ">=", figure.target,
                     figure.met() ? "met" : "missed");
}

std::string spread(double value, const Figure& figure) {
    return figure.value.count > 1 ? number_text(value) : std::string();
}

// Counts have no decimals.
std::string median_text(const Figure& figure) {
    const double value = figure.value.median;
    const bool sampled = figure.value.count > 1 || value != std::floor(value);
    return sampled ? number_text(value) : formatted("%.0f", value);
}

Cells cells(const Figure& figure) {
    std::string doubts;
    for (const std::string& doubt : figure.doubts) append(&doubts, ", ", doubt);
    return {"  " + figure.name,
            median_text(figure),
            figure.unit,
            spread(figure.value.p10, figure),
            spread(figure.value.p90, figure),
            verdict(figure),
            number_text(figure.reference),
            number_text(figure.model),
            is_set(figure.model) ? percent_text("%+.1f%%", figure.deviation()) : "",
            number_text(figure.machine),
            doubts.empty() ? doubts : "? " + doubts};
}

// One part of a matrix: the ratios of a test, or its other figures.
class Part {
  public:
    Part(const std::vector<Figure>& figures, const std::string& test, bool ratios)
        : test_(test), ratios_(ratios) {
        for (const Figure& figure : figures) {
            if (figure.test != test || figure.is_ratio() != ratios) continue;
            figures_.push_back(&figure);
            add_once(&names_, figure.name);
            add_once(&sizes_, std::pair(figure.x, figure.x_text));
        }
    }

    std::string table() const {
        if (figures_.empty()) return {};
        std::vector<Cells> lines = {{ratios_ ? "ratios of " + test_ : title()}};
        lines.front().insert(lines.front().end(), names_.begin(), names_.end());
        lines.front().emplace_back();
        add_lines(names_, &lines);
        return in_columns(lines, "l" + std::string(names_.size(), 'r') + "l") + "\n";
    }

    // Adds a line for each x, with a column for each of these names.
    void add_lines(const std::vector<std::string>& names, std::vector<Cells>* lines) const {
        for (const auto& size : sizes_) lines->push_back(line(size, names));
    }
    const std::vector<std::string>& names() const { return names_; }
    std::string title() const {
        return ratios_ || figures_.empty() ? test_ : test_ + ", " + figures_.back()->unit;
    }

    // Which targets are met and missed: a line for each name with targets.
    std::string targets() const {
        std::string text;
        for (const std::string& name : names_) {
            int met = 0;
            int all = 0;
            std::string missed;
            for (const Figure* figure : figures_) {
                if (figure->name != name || !figure->has_target()) continue;
                ++all;
                met += figure->met();
                if (figure->met()) continue;
                append(&missed, ", ",
                       figure->x_text +
                           formatted(" (%.2f, target %.2f)", figure->value.median, figure->target));
            }
            if (all == 0) continue;
            text += name + ": target met at " + std::to_string(met) + " of " + std::to_string(all) +
                    " sizes" + (missed.empty() ? "" : "; missed at " + missed) + "\n";
        }
        return text;
    }

  private:
    Cells line(const std::pair<double, std::string>& size,
               const std::vector<std::string>& names) const {
        Cells cells = {"  " + size.second};
        std::vector<const Figure*> found;
        for (const std::string& name : names) {
            const auto at = std::ranges::find_if(figures_, [&](const Figure* figure) {
                return figure->x == size.first && figure->name == name;
            });
            cells.push_back(at == figures_.end() ? "" : value(**at));
            if (at != figures_.end()) found.push_back(*at);
        }
        cells.push_back(ratios_ ? std::string() : remarks(found));
        return cells;
    }
    static std::string value(const Figure& figure) {
        const bool missed = figure.has_target() && !figure.met();
        if (figure.is_ratio()) {
            return formatted("%.2f (%.2f..%.2f)%s", figure.value.median, figure.value.p10,
                             figure.value.p90, missed ? (figure.at_most ? " >" : " <") : "");
        }
        return number_text(figure.value.median) + (missed ? figure.at_most ? ">" : "<" : "") +
               (figure.doubts.empty() ? " " : "?");
    }
    // The doubts about one line: the names with late operations, and all other doubts.
    static std::string remarks(const std::vector<const Figure*>& line) {
        std::string late;
        std::vector<std::string> others;
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

    const std::string& test_;
    const bool ratios_;
    std::vector<const Figure*> figures_;
    std::vector<std::string> names_;
    std::vector<std::pair<double, std::string>> sizes_;
};

std::vector<std::string> tests_of(const std::vector<Figure>& figures) {
    std::vector<std::string> tests;
    for (const Figure& figure : figures) add_once(&tests, figure.test);
    return tests;
}

// The ratios or the other figures of all tests, in one table.
std::string group_table(const std::vector<Figure>& figures, bool ratios) {
    const std::vector<std::string> tests = tests_of(figures);
    std::vector<Part> parts;
    std::vector<std::string> names;
    for (const std::string& test : tests) {
        parts.emplace_back(figures, test, ratios);
        for (const std::string& name : parts.back().names()) add_once(&names, name);
    }
    if (names.empty()) return {};
    std::vector<Cells> lines = {{ratios ? "ratios" : "values"}, {""}};
    for (const std::string& name : names) {
        const size_t end = name.find(": ");
        const bool split = end != std::string::npos;
        lines[0].push_back(split ? name.substr(0, end) : "");
        lines[1].push_back(split ? name.substr(end + 2) : name);
    }
    for (Cells& line : lines) line.emplace_back();
    for (const Part& part : parts) {
        lines.emplace_back(names.size() + 2);
        lines.back().front() = part.title();
        part.add_lines(names, &lines);
    }
    return in_columns(lines, "l" + std::string(names.size(), 'r') + "l");
}

// How many targets are met: a line for each name with targets.
std::string target_counts(const std::vector<Figure>& figures) {
    std::vector<std::string> names;
    for (const Figure& figure : figures) {
        if (figure.has_target()) add_once(&names, figure.name);
    }
    std::string text;
    for (const std::string& name : names) {
        int met = 0;
        int all = 0;
        for (const Figure& figure : figures) {
            if (figure.name != name || !figure.has_target()) continue;
            ++all;
            met += figure.met();
        }
        text += name + ": target met in " + std::to_string(met) + " of " + std::to_string(all) +
                " lines\n";
    }
    return text;
}

}  // namespace

Figure exact_figure(std::string test, double x, std::string x_text, std::string name,
                    std::string unit, double value) {
    return {std::move(test),   x,
            std::move(x_text), std::move(name),
            std::move(unit),   {value, value, value, value, value, 1}};
}

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

std::string as_table(const std::vector<Figure>& figures) {
    const bool sampled =
        std::ranges::any_of(figures, [](const Figure& one) { return one.value.count > 1; });
    const Cells titles = {"",          sampled ? "median" : "value",
                          "",          "p10",
                          "p90",       "target",
                          "paper",     "model",
                          "deviation", "machine",
                          ""};
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
    return in_columns(lines, "lrlrrlrrrrl");
}

std::string as_matrix(const std::vector<Figure>& figures) {
    std::string text;
    for (const std::string& test : tests_of(figures)) {
        const Part values(figures, test, false);
        const Part ratios(figures, test, true);
        const std::string targets = values.targets() + ratios.targets();
        text += ratios.table() + values.table() + targets + (targets.empty() ? "" : "\n");
    }
    return text;
}

std::string as_groups(const std::vector<Figure>& figures) {
    return group_table(figures, true) + "\n" + target_counts(figures) + "\n" +
           group_table(figures, false);
}

}  // namespace bench
