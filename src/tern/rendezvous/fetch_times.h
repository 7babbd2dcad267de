// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tern/rendezvous/decision.h"

namespace tern {

// The time from the decision to fetch a message until both sides know that it is over, for messages
// of up to `upto` bytes that are longer than those of the range before: latency + fixed + length *
// per_byte, in seconds; `fixed` may be negative. Further messages can be under way during the
// latency.
struct FetchRange {
    uint64_t upto = 0;
    double latency = 0;
    double fixed = 0;
    double per_byte = 0;
    Scheme scheme = Scheme::kStaged;
};

inline constexpr size_t kFetchRanges = 7;  // at most

// The times of the scheme that the decider chooses for buffers that are used for the first time, as
// straight lines: ranges are short enough that a line is within a few per cent of the model.
// Buffers of more than `longest_pin` bytes are not pinned. Copies take the time that the user of
// the result assumes for its own copies, to compare like with like: `copy_bandwidth`, in bytes per
// second. The last range is unlimited.
struct FetchTimes {
    std::array<FetchRange, kFetchRanges> ranges;
    size_t count = 0;
};
FetchTimes fetch_times(const Decider& decider, uint64_t longest_pin, double copy_bandwidth);

}  // namespace tern
