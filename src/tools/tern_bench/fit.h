// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

namespace tern::bench {

// What an operation of `bytes` took, in seconds.
struct Timing {
    double bytes;
    double seconds;
};

struct Line {
    double constant = 0;   // seconds
    double bandwidth = 0;  // bytes per second
};

// constant + bytes / bandwidth with the least relative errors; neither is negative.
Line fit_line(const std::vector<Timing>& timings);

}  // namespace tern::bench
