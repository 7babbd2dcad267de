// SPDX-License-Identifier: BSD-3-Clause
// Timing of round trips.
#pragma once

#include "bench/measure/clock.h"
#include "bench/measure/statistics.h"

namespace bench {

struct Trips {
    Trips(uint64_t round_trips) : count(round_trips) {}
    Trips(uint64_t round_trips, uint32_t bytes, uint64_t trips_per_sample)
        : count(round_trips / trips_per_sample * trips_per_sample),
          size(bytes),
          per_sample(trips_per_sample) {}

    uint64_t count;
    uint32_t size = 8;  ///< of a message, in bytes
    /// Looking at the clock takes as long as a message in shared memory, so it should be done
    /// seldom where those are measured.
    uint64_t per_sample = 1;
};

/// Runs trip() so often and notes half of what each takes, in us.
template <typename Trip>
Samples time_trips(const Trips& trips, Trip&& trip) {
    Samples samples;
    samples.reserve(trips.count / trips.per_sample);
    uint64_t begin = now_ns();
    for (uint64_t i = 0; i < trips.count / trips.per_sample; ++i) {
        for (uint64_t j = 0; j < trips.per_sample; ++j) trip();
        const uint64_t end = now_ns();
        samples.push_back(static_cast<double>(end - begin) / 2000 /
                          static_cast<double>(trips.per_sample));
        begin = end;
    }
    return samples;
}

}  // namespace bench
