// SPDX-License-Identifier: BSD-3-Clause
// What a page of results consists of: which figures are shown together, and in which part.
#pragma once

#include <string>
#include <vector>

#include "bench/results/stored.h"

namespace bench {

// Parts of the page. What a figure belongs to depends on its command and its unit.
enum Part { kProgram, kLatency, kBandwidth, kOverlap, kMemory, kScale, kPaper, kOther, kParts };
// A test of one result: its figures in the order of the file.
struct Test {
    std::string title;
    std::vector<StoredFigure> ratios = {};
    std::vector<StoredFigure> values = {};
    std::string unit = {};  // of the values
    Better which = Better::kUnknown;
};

// Results that are shown together, as one: all simulations with the same slowness.
struct Together {
    StoredResult result;
    std::string files;                      // their names
    std::vector<std::string> sources = {};  // a line for each
};

std::vector<Together> together(const std::vector<StoredResult>& results);

// Adapters first, then their simulations, then the software HCA.
void sort_results(std::vector<StoredResult>* results);

// Of one part, in the order of the file, also with ratios that the file does not have: to the
// paper, and of registered memory.
std::vector<Test> tests_of(const StoredResult& result, Part part);

// Whether all figures of the result have too few rounds: it is said once, and not of each figure.
bool says_few_rounds(const StoredResult& result);
extern const char* const kFewRounds;
// Empty if the figure is not doubtful.
std::string doubts_of(const StoredFigure& figure);

std::string title_of(const StoredResult& result);
std::string source_of(const StoredResult& result);

}  // namespace bench
