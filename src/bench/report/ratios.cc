// SPDX-License-Identifier: BSD-3-Clause
#include "bench/report/ratios.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "bench/report/text.h"

namespace report {
namespace {

using Key = std::tuple<std::string, std::string, uint64_t, std::string>;
Key key_of(const Ratio& row) {
    return {row.profile, row.test, row.bytes, row.peer};
}

// As files have it, so that a row that did not change compares equal.
std::string number_of(double value) {
    return formatted("%.4f", value);
}
double rounded(double value) {
    return std::strtod(number_of(value).c_str(), nullptr);
}

std::string without_spaces(const std::string& text) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string::npos) return {};
    return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

Ratio ratio_in(const std::string& line) {
    const auto fail = [&line] { throw Failure("no row of ratios: " + line); };
    const size_t comment = line.find('#');
    std::istringstream words(line.substr(0, comment));
    std::array<std::string, 5> parts;
    for (std::string& part : parts)
        if (!std::getline(words, part, '|') || part.empty()) fail();
    Ratio row{parts[0], parts[1], 0, parts[3]};
    char* end = nullptr;
    row.bytes = std::strtoull(parts[2].c_str(), &end, 10);
    if (*end != '\0') fail();
    const std::string value = without_spaces(parts[4]);
    row.value = std::strtod(value.c_str(), &end);
    if (*end != '\0' || !std::isfinite(row.value) || row.value <= 0) fail();
    if (comment != std::string::npos) row.reason = without_spaces(line.substr(comment + 1));
    return row;
}

bool is_slower(double was, double is) {
    return was >= kEven ? is < kEven : is < was * (1 - kTolerance);
}

}  // namespace

std::string Ratio::text() const {
    const std::string size =
        bytes == 0 ? "" : formatted(", %llu bytes", static_cast<unsigned long long>(bytes));
    return formatted("%s, %s%s, over %s", profile.c_str(), test.c_str(), size.c_str(),
                     peer.c_str());
}

std::vector<Ratio> ratios_in(const std::string& text) {
    std::vector<Ratio> rows;
    std::map<Key, bool> seen;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line.starts_with('#')) continue;
        rows.push_back(ratio_in(line));
        if (!seen.emplace(key_of(rows.back()), true).second)
            throw Failure("a row is there twice: " + line);
    }
    return rows;
}

std::string comments_in(const std::string& text) {
    std::string comments;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line) && line.starts_with('#');)
        comments += line + "\n";
    return comments;
}

std::string text_of(const std::vector<Ratio>& rows) {
    std::string text;
    for (const Ratio& row : rows) {
        text += row.profile + "|" + row.test + "|" + std::to_string(row.bytes) + "|" + row.peer +
                "|" + number_of(row.value);
        text += row.reason.empty() ? "\n" : "  # " + row.reason + "\n";
    }
    return text;
}

Judgement judge(const std::vector<Ratio>& kept, const std::vector<Ratio>& measured) {
    std::map<Key, const Ratio*> rest;
    for (const Ratio& row : kept) rest.emplace(key_of(row), &row);
    Judgement found;
    size_t faster = 0;
    for (const Ratio& row : measured) {
        const auto before = rest.find(key_of(row));
        const std::string is = row.text() + ": " + number_of(row.value);
        if (before == rest.end()) {
            found.failures.push_back("new: " + is);
            continue;
        }
        const Ratio& old = *before->second;
        const double value = rounded(row.value);
        if (!std::isfinite(value) || value <= 0)
            found.failures.push_back("no ratio: " + is);
        else if (is_slower(old.value, value))
            found.failures.push_back("slower: " + is + ", was " + number_of(old.value));
        else if (value > old.value * (1 + kTolerance))
            ++faster;
        if (value < kEven && old.reason.empty()) found.notes.push_back("no reason: " + is);
        rest.erase(before);
    }
    for (const Ratio& row : kept)
        if (rest.contains(key_of(row)))
            found.failures.push_back("missing: " + row.text() + ": was " + number_of(row.value));
    if (faster != 0)
        found.notes.push_back(std::to_string(faster) + " rows are faster by more than 1 %");
    return found;
}

std::vector<Ratio> with_best_peers(const std::vector<Ratio>& rows) {
    std::map<Key, Ratio> best;
    for (Ratio row : rows) {
        row.peer = kBestPeer;
        const auto [found, is_new] = best.emplace(key_of(row), row);
        if (!is_new) found->second.value = std::min(found->second.value, row.value);
    }
    std::vector<Ratio> all = rows;
    for (const auto& [key, row] : best) all.push_back(row);
    return all;
}

std::vector<Ratio> with_reasons(const std::vector<Ratio>& kept, std::vector<Ratio> measured) {
    std::map<Key, std::string> reasons;
    for (const Ratio& row : kept) reasons.emplace(key_of(row), row.reason);
    for (Ratio& row : measured) {
        const auto found = reasons.find(key_of(row));
        row.reason = found == reasons.end() || !row.loses() ? "" : found->second;
    }
    return measured;
}

std::string as_sorted_table(const std::vector<Ratio>& rows) {
    std::map<std::pair<std::string, std::string>, std::vector<const Ratio*>> groups;
    for (const Ratio& row : rows) groups[{row.profile, row.peer}].push_back(&row);
    std::string text;
    for (auto& [group, members] : groups) {
        std::ranges::stable_sort(members, {}, &Ratio::value);
        double logarithms = 0;
        for (const Ratio* row : members) logarithms += std::log(row->value);
        const auto losing = std::ranges::count_if(members, &Ratio::loses);
        text += formatted("%s, tern over %s: %zu rows, %zu below %.2f, geometric mean %.3f\n",
                          group.first.c_str(), group.second.c_str(), members.size(),
                          static_cast<size_t>(losing), kEven,
                          std::exp(logarithms / static_cast<double>(members.size())));
        for (const Ratio* row : members)
            text += formatted("  %8.4f  %-44s %9llu\n", row->value, row->test.c_str(),
                              static_cast<unsigned long long>(row->bytes));
        text += "\n";
    }
    return text;
}

}  // namespace report
