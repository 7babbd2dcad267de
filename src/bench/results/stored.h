// SPDX-License-Identifier: BSD-3-Clause
// Results that benchmarks wrote to files. What a file says is not trusted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report/statistics.h"
#include "bench/report/text.h"

namespace bench {

// A figure of a file, as docs/bench/tern-bench.md describes it. What the file does not have is
// kNone.
struct StoredFigure {
    std::string test;
    std::string name;
    std::string unit;
    std::string x_text;
    double x = 0;
    double median = report::kNone;  // kNone: late
    double p10 = report::kNone;
    double p90 = report::kNone;
    double at_most = report::kNone;
    double at_least = report::kNone;
    double paper = report::kNone;
    double late_share = report::kNone;
    report::Samples rounds = {};
    std::vector<std::string> doubts = {};

    bool is_ratio() const { return unit == "x"; }
    bool is_late() const { return !report::is_set(median); }
    // The range of the rounds; of the samples if the file has no rounds.
    double least() const;
    double most() const;
};

struct StoredResult {
    std::string file;  // its name, without folders
    std::string command;
    std::string commit;
    std::string date;  // of the day
    std::string machine;
    std::string device;
    std::string ucx;
    std::string profile;  // of the software HCA
    std::string slow;     // factor of its times; empty: 1
    std::string rounds;
    std::vector<std::string> incomplete = {};
    std::vector<StoredFigure> figures = {};
};

// These throw report::Failure, which names the file and what is wrong with it. Control characters
// of texts are replaced.
StoredResult parse_result(const std::string& file, const std::string& text);
StoredResult read_result(const std::string& path);

// Whether a lower or a higher value of a figure is the better one.
enum class Better : uint8_t { kUnknown, kLess, kMore };
Better better(const StoredResult& result, const StoredFigure& figure);

// With three significant digits, in decimal notation. Exact numbers are written in full.
std::string short_text(double value, bool exact = false);

}  // namespace bench
