// SPDX-License-Identifier: BSD-3-Clause
#include "bench/results/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace bench {
namespace {

using report::Cells;
using report::Samples;

constexpr double kChance = 0.01;
constexpr size_t kMostExact = 20;  // rounds of one, with which the chance is counted exactly

// In how many of the other's values each value is greater, in all; equal ones count half.
double rank_sum(const Samples& one, const Samples& other) {
    double sum = 0;
    for (const double value : one) {
        const auto below = std::ranges::lower_bound(other, value) - other.begin();
        const auto upto = std::ranges::upper_bound(other, value) - other.begin();
        sum += static_cast<double>(below + upto) / 2;
    }
    return sum;
}

// The share of all orders of n and m values in which the sum is at most `sum`.
double share_of_orders(size_t n, size_t m, double sum) {
    const size_t most = n * m;
    // counts[j][u]: orders of the first values of one and of j values of the other.
    std::vector<std::vector<double>> counts(m + 1, std::vector<double>(most + 1, 0));
    for (size_t j = 0; j <= m; ++j) counts[j][0] = 1;
    for (size_t i = 1; i <= n; ++i) {
        std::vector<std::vector<double>> next(m + 1, std::vector<double>(most + 1, 0));
        next[0][0] = 1;
        for (size_t j = 1; j <= m; ++j) {
            for (size_t u = 0; u <= most; ++u)
                next[j][u] = next[j - 1][u] + (u >= j ? counts[j][u - j] : 0);
        }
        counts = std::move(next);
    }
    double all = 0;
    double some = 0;
    for (size_t u = 0; u <= most; ++u) {
        all += counts[m][u];
        if (static_cast<double>(u) <= sum) some += counts[m][u];
    }
    return some / all;
}

bool outside(double value, const StoredFigure& figure) {
    if (figure.rounds.empty()) return value < figure.least() || value > figure.most();
    const report::Summary summary = report::summarize(figure.rounds);
    return value < summary.p10 || value > summary.p90;
}

using Key = std::tuple<std::string, std::string, std::string, std::string>;
Key key_of(const StoredFigure& figure) {
    return {figure.test, figure.x_text, figure.name, figure.unit};
}

std::string range_text(const StoredFigure& figure) {
    if (figure.is_late()) return "late";
    std::string text = short_text(figure.median, figure.rounds.empty());
    if (!figure.rounds.empty())
        text += " (" + short_text(figure.least()) + ".." + short_text(figure.most()) + ")";
    return text;
}

std::string change_text(const StoredFigure& before, const StoredFigure& after) {
    if (before.is_late() || after.is_late() || before.median == 0) return {};
    return report::percent_text("%+.1f %%", after.median / before.median - 1);
}

std::string verdict(const StoredResult& result, const StoredFigure& before,
                    const StoredFigure& after) {
    if (before.is_late() || after.is_late()) return {};
    const Better which = better(result, after);
    if (which == Better::kUnknown) return {};
    return (after.median < before.median) == (which == Better::kLess) ? "better" : "worse";
}

std::string facts_text(const char* title, const StoredResult& result) {
    std::string text = std::string(title) + "  " + result.file + ": " + result.command +
                       ", commit " + result.commit + ", " + result.date + ", " + result.machine;
    if (!result.ucx.empty()) text += ", UCX " + result.ucx;
    if (!result.device.empty()) text += ", " + result.device;
    if (!result.profile.empty()) text += ", profile " + result.profile;
    if (!result.slow.empty()) text += ", slowed " + result.slow + " times";
    if (!result.rounds.empty()) text += ", rounds " + result.rounds;
    text += "\n";
    for (const std::string& gap : result.incomplete) text += "   incomplete: " + gap + "\n";
    return text;
}

// What makes absolute figures incomparable.
std::string warnings(const StoredResult& before, const StoredResult& after) {
    std::string what;
    const auto differ = [&](const char* name, const std::string& one, const std::string& other) {
        if (one != other) what += (what.empty() ? "" : ", ") + std::string(name);
    };
    differ("machine", before.machine, after.machine);
    differ("UCX", before.ucx, after.ucx);
    differ("device", before.device, after.device);
    differ("profile", before.profile, after.profile);
    differ("slowness", before.slow, after.slow);
    if (what.empty()) return {};
    return "not the same: " + what + ". Only ratios may be comparable.\n";
}

std::string list_text(const std::string& title, const std::vector<Cells>& lines) {
    if (lines.empty()) return {};
    std::vector<Cells> table = {{"", "", "", "", "", "", ""}};
    table.insert(table.end(), lines.begin(), lines.end());
    std::string text = report::in_columns(table, "lllllrl");
    return "\n" + title + "\n" + text.substr(text.find('\n') + 1);
}

}  // namespace

double chance_of(Samples one, Samples other) {
    if (one.empty() || other.empty()) return 1;
    std::ranges::sort(one);
    std::ranges::sort(other);
    const auto n = static_cast<double>(one.size());
    const auto m = static_cast<double>(other.size());
    const double sum = rank_sum(one, other);
    const double low = std::min(sum, n * m - sum);
    if (one.size() <= kMostExact && other.size() <= kMostExact)
        return std::min(1.0, 2 * share_of_orders(one.size(), other.size(), low));
    const double deviation = std::sqrt(n * m * (n + m + 1) / 12);
    return std::min(1.0, std::erfc((n * m / 2 - low - 0.5) / deviation / std::sqrt(2)));
}

Change change_of(const StoredFigure& before, const StoredFigure& after) {
    if (before.is_late() || after.is_late())
        return before.is_late() == after.is_late() ? Change::kNone : Change::kLate;
    const bool exact = before.rounds.empty() && after.rounds.empty() &&
                       !report::is_set(before.p10) && !report::is_set(after.p10);
    if (exact) return before.median == after.median ? Change::kNone : Change::kChanged;
    if (!outside(before.median, after) || !outside(after.median, before)) return Change::kNone;
    if (chance_of(before.rounds, after.rounds) < kChance) return Change::kChanged;
    // Where even ranges that have nothing in common may be chance.
    const bool apart = before.most() < after.least() || after.most() < before.least();
    return apart ? Change::kPerhaps : Change::kNone;
}

Comparison compare(const StoredResult& before, const StoredResult& after) {
    std::map<Key, const StoredFigure*> old;
    for (const StoredFigure& figure : before.figures) old[key_of(figure)] = &figure;
    Comparison comparison;
    std::map<Change, std::vector<Cells>> lines;
    size_t only_after = 0;
    size_t tested = 0;
    for (const StoredFigure& figure : after.figures) {
        const auto found = old.find(key_of(figure));
        if (found == old.end()) {
            ++only_after;
            continue;
        }
        const StoredFigure& was = *found->second;
        ++comparison.compared;
        if (!was.rounds.empty() && !figure.rounds.empty()) ++tested;
        const Change change = change_of(was, figure);
        lines[change].push_back({"  " + figure.test, figure.x_text, figure.name,
                                 figure.is_ratio() ? "ratio" : figure.unit,
                                 range_text(was) + " -> " + range_text(figure),
                                 change_text(was, figure), verdict(after, was, figure)});
        old.erase(found);
    }
    comparison.changed = lines[Change::kChanged].size();
    comparison.text = facts_text("A", before) + facts_text("B", after) + warnings(before, after);
    comparison.text += report::formatted("%zu of %zu figures changed beyond their spread\n",
                                         comparison.changed, comparison.compared);
    if (tested != 0 && comparison.changed != 0) {
        comparison.text +=
            report::formatted("(chance alone would make up to %.0f of %zu measured ones look so)\n",
                              std::ceil(kChance * static_cast<double>(tested)), tested);
    }
    comparison.text +=
        list_text("changed: medians, with the range of the rounds", lines[Change::kChanged]);
    comparison.text +=
        list_text("perhaps changed: too few rounds to exclude chance", lines[Change::kPerhaps]);
    comparison.text += list_text("late in one of them", lines[Change::kLate]);
    if (!old.empty() || only_after != 0) {
        comparison.text += report::formatted(
            "\nnot compared: %zu figures only in A, %zu only in B\n", old.size(), only_after);
    }
    return comparison;
}

}  // namespace bench
