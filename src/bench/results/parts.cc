// SPDX-License-Identifier: BSD-3-Clause
#include "bench/results/parts.h"

#include <algorithm>

namespace bench {
namespace {

using report::is_set;

constexpr double kTooLate = 0.05;
constexpr const char* kCalculated = ", calculated";

Part part_of(const StoredResult& result, const StoredFigure& figure) {
    const std::string& command = result.command;
    const auto begins = [&](const char* text) { return figure.test.starts_with(text); };
    if (command == "program") return kProgram;
    if (command == "memory") return kMemory;
    if (command == "overlap" || begins("availability")) return kOverlap;
    if (command == "fastpath" || is_set(figure.paper)) return kPaper;
    if (command == "tune" || command == "softhca-bench") return kOther;
    if (command == "replay" || command == "scale") return kScale;
    if (command == "sim" && !begins("half round trip") && !begins("stream") && !begins("puts") &&
        !begins("gets"))
        return kScale;
    switch (better(result, figure)) {
        case Better::kLess:
            return kLatency;
        case Better::kMore:
            return kBandwidth;
        default:
            return kOther;
    }
}

StoredFigure ratio_of(const StoredFigure& one, const std::string& name, double yardstick) {
    StoredFigure ratio = one;
    ratio.name = name;
    ratio.unit = "x";
    ratio.median = one.median / yardstick;
    ratio.p10 = ratio.p90 = report::kNone;
    ratio.rounds.clear();
    return ratio;
}

// Ratios that the file does not have: to the paper, and of registered memory.
void add_ratios(Test* test) {
    if (!test->ratios.empty()) return;
    for (const StoredFigure& figure : test->values) {
        if (figure.paper > 0) {
            test->ratios.push_back(ratio_of(figure, figure.name + " / paper", figure.paper));
            continue;
        }
        if (!figure.name.starts_with("tern")) continue;
        const std::string rest = figure.name.substr(4);
        for (const StoredFigure& other : test->values) {
            if (other.x_text == figure.x_text && other.name == "rc_verbs" + rest &&
                other.median > 0) {
                test->ratios.push_back(ratio_of(figure, "tern / rc_verbs" + rest, other.median));
            }
        }
    }
}

// Figures that were calculated from the others continue their line.
StoredFigure renamed(StoredFigure figure) {
    if (const size_t at = figure.name.find(kCalculated); at != std::string::npos) {
        figure.name.erase(at, std::string(kCalculated).size());
        figure.doubts.emplace_back("calculated");
    }
    return figure;
}

int rank_of(const StoredResult& result) {
    if (result.device.starts_with("softhca")) return 2;
    return result.device.empty() ? 1 : 0;
}

}  // namespace

const char* const kFewRounds = "few rounds";

// "latency, profile graphene"
std::string title_of(const StoredResult& result) {
    std::string title = result.command;
    if (!result.profile.empty()) title += ", profile " + result.profile;
    if (!result.slow.empty()) title += ", network slowed " + result.slow + " times";
    return title;
}

std::string source_of(const StoredResult& result) {
    std::string text = result.file;
    const auto add = [&](const char* name, const std::string& value) {
        if (!value.empty()) text += " · " + (name + value);
    };
    add("commit ", result.commit);
    add("", result.date);
    add("", result.machine);
    add("UCX ", result.ucx);
    add("", result.device);
    add("rounds ", result.rounds);
    return text;
}

// What is said once for the whole result is left out of each figure.
bool says_few_rounds(const StoredResult& result) {
    bool any = false;
    for (const StoredFigure& figure : result.figures) {
        if (figure.rounds.empty()) continue;
        any = true;
        if (std::ranges::find(figure.doubts, kFewRounds) == figure.doubts.end()) return false;
    }
    return any;
}

std::string doubts_of(const StoredFigure& figure) {
    std::string text;
    for (const std::string& doubt : figure.doubts) text += (text.empty() ? "" : ", ") + doubt;
    if (figure.late_share > kTooLate && text.find("late") == std::string::npos)
        text += (text.empty() ? "" : ", ") + report::percent_text("late %.0f%%", figure.late_share);
    return text;
}

std::vector<Test> tests_of(const StoredResult& result, Part part) {
    std::vector<Test> tests;
    const bool few = says_few_rounds(result);
    for (const StoredFigure& stored : result.figures) {
        if (part_of(result, stored) != part) continue;
        StoredFigure figure = renamed(stored);
        if (few) std::erase(figure.doubts, kFewRounds);
        // A ratio belongs to the values of its size, which are before it.
        const auto found = std::ranges::find_if(tests, [&](const Test& test) {
            if (test.title != figure.test) return false;
            if (!figure.is_ratio()) return test.values.empty() || test.unit == figure.unit;
            return test.values.empty() ||
                   std::ranges::find(test.values, figure.x_text, &StoredFigure::x_text) !=
                       test.values.end();
        });
        Test& test = found != tests.end() ? *found : tests.emplace_back(Test{.title = figure.test});
        if (test.which == Better::kUnknown) test.which = better(result, stored);
        if (!figure.is_ratio()) test.unit = figure.unit;
        (figure.is_ratio() ? test.ratios : test.values).push_back(std::move(figure));
    }
    for (Test& test : tests) {
        // In a storm, only Tern connects within the time.
        if (test.title == "storm")
            test.ratios.clear();
        else
            add_ratios(&test);
    }
    return tests;
}

std::vector<Together> together(const std::vector<StoredResult>& results) {
    std::vector<Together> all;
    for (const StoredResult& result : results) {
        const auto fits = [&](const Together& one) {
            return result.command == "sim" && one.result.command == "sim" &&
                   one.result.slow == result.slow && one.result.profile != result.profile;
        };
        const auto found = std::ranges::find_if(all, fits);
        const bool is_new = found == all.end();
        Together& one = is_new ? all.emplace_back(Together{result, ""}) : *found;
        one.files += (one.files.empty() ? "" : ", ") + result.file;
        one.sources.push_back(source_of(result));
        if (result.command != "sim") continue;
        if (is_new)
            one.result.figures.clear();
        else
            one.result.profile += ", " + result.profile;
        for (StoredFigure figure : result.figures) {
            figure.name = result.profile + ": " + figure.name;
            one.result.figures.push_back(std::move(figure));
        }
    }
    return all;
}

void sort_results(std::vector<StoredResult>* results) {
    std::ranges::stable_sort(*results, {}, rank_of);
}

}  // namespace bench
