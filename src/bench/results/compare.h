// SPDX-License-Identifier: BSD-3-Clause
// What differs between two results of the same measurements by more than chance.
#pragma once

#include <string>
#include <vector>

#include "bench/results/stored.h"

namespace bench {

// The chance that two sets of rounds differ in rank as much as these, or more, if nothing but
// chance makes them differ: the test of Mann and Whitney, for both directions. It assumes nothing
// about how the values are distributed.
double chance_of(report::Samples one, report::Samples other);

enum class Change : uint8_t {
    kNone,     // within the spread
    kChanged,  // beyond it
    kPerhaps,  // beyond it, but there are too few rounds to exclude chance
    kLate,     // no value in one of them: the device was too late
};

// Of two figures of the same measurement. A figure has changed if chance_of() its rounds is less
// than 1 %, and each median is outside what lies between the 10th and 90th percentile of the
// other's rounds. Without rounds, which calculated, counted and simulated figures do not have, any
// difference is a change.
Change change_of(const StoredFigure& before, const StoredFigure& after);

struct Comparison {
    std::string text;     // for the reader
    size_t changed = 0;   // figures
    size_t compared = 0;  // figures that both have
};
Comparison compare(const StoredResult& before, const StoredResult& after);

}  // namespace bench
