// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/work.h"

#include <algorithm>
#include <limits>

#include "bench/measure/clock.h"

namespace bench {

Work::Work(double ns) : turns_(static_cast<uint64_t>(std::max(1.0, ns / turn_ns()))) {}

void Work::spin(uint64_t turns) {
    // Each turn waits for the one before it.
    volatile uint64_t result;
    uint64_t x = turns | 1;
    for (uint64_t i = 0; i < turns; ++i) {
        x *= 0x9e3779b97f4a7c15;
        x ^= x >> 31;
        asm volatile("" : "+r"(x));
    }
    result = x;
    (void)result;
}

double Work::turn_ns() {
    static const double best = [] {
        constexpr uint64_t kTurns = 50'000;
        double least = std::numeric_limits<double>::infinity();
        for (int i = 0; i < 50; ++i) {
            const uint64_t begin = now_ns();
            spin(kTurns);
            least = std::min(least, static_cast<double>(now_ns() - begin) / kTurns);
        }
        return least;
    }();
    return best;
}

}  // namespace bench
