// SPDX-License-Identifier: BSD-3-Clause
// How long messages are measured.
#pragma once

#include <algorithm>

#include "bench/series/series.h"
#include "bench/tern-bench/arms.h"

namespace bench {

constexpr uint64_t kLongItemBytes = 16 << 20;  // of an order, in each direction
constexpr uint64_t kFewestTrips = 4;
constexpr uint64_t kMostTrips = 30;
// Additional messages of a reused buffer, because the buffer may be pinned piece by piece.
constexpr uint64_t kSettling = 8;

// The bandwidth of a ping-pong of messages, or of writes if the arm is not UCP's.
inline Series::Item long_item(Series& series, const Options& options, const char* test,
                              uint32_t size, const std::string& name, const Arm& arm,
                              Buffers buffers) {
    const uint64_t trips = options.quick
                               ? kFewestTrips - 1
                               : std::clamp(kLongItemBytes / size, kFewestTrips, kMostTrips);
    const auto kind = arm.port == "ucp" ? Order::Kind::kMessages : Order::Kind::kWrites;
    return {.test = test,
            .size = size,
            .name = name,
            .arm = series.add_arm(arm),
            .order = {kind, size, trips, 1, buffers},
            .unit = "GB/s",
            .rate = true};
}

}  // namespace bench
