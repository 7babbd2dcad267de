// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/statistics.h"

#include <algorithm>

namespace bench {
namespace {

double quantile(const Samples& sorted, double share) {
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

}  // namespace

Summary summarize(Samples samples) {
    std::ranges::sort(samples);
    return {quantile(samples, 0.5), samples.front(), quantile(samples, 0.1), quantile(samples, 0.9),
            samples.size()};
}

double median(Samples samples) {
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::ranges::nth_element(samples, middle);
    return *middle;
}

void append(Samples* all, const Samples& round) {
    all->insert(all->end(), round.begin(), round.end());
}

}  // namespace bench
