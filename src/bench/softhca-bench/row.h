// SPDX-License-Identifier: BSD-3-Clause
// One line of the result, as it goes from the process that measures to the one that prints.
#pragma once

#include <string_view>
#include <type_traits>

#include "bench/measure/statistics.h"

namespace softhca::bench {

using namespace ::bench;

/// Plain data; numbers that there are none of are kNone.
struct Row {
    char section[24] = {};
    char device[24] = {};
    char label[64] = {};
    char unit[8] = {};  ///< us, or GB/s
    Summary value = {};
    double target = kNone;        ///< for the value
    double ratio = kNone;         ///< to the yardstick of its kind: median of the rounds' ratios
    double ratio_target = kNone;  ///< for the ratio
    double model = kNone;         ///< what the timing model says
    double machine = kNone;       ///< the same measured without a model
    double late_share = kNone;    ///< operations that the fabric counted as late, 0..1

    bool is_rate() const { return std::string_view(unit) == "GB/s"; }
    /// (value - model) / model
    double deviation() const { return value.median / model - 1; }
    /// The machine alone takes longer than the model would.
    bool machine_bound() const {
        return is_set(model) && is_set(machine) && (is_rate() ? machine < model : machine > model);
    }
    bool late() const { return is_set(late_share) && late_share > kLateShare; }

    static constexpr double kLateShare = 0.05;
};
static_assert(std::is_trivially_copyable_v<Row>);

/// A row with its texts filled in, cut where they are too long.
Row make_row(std::string_view label, std::string_view unit, const Samples& samples);
void set_text(char* field, size_t size, std::string_view text);

}  // namespace softhca::bench
