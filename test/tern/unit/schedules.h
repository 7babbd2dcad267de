// SPDX-License-Identifier: BSD-3-Clause
// Random schedules; a failure reports the seed that repeats it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/random.h"
#include "common/seed.h"

namespace tern {

inline uint64_t number_from_environment(const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 0) : otherwise;
}

// A sanitizer takes ten times as long, and the same tests run without it too.
#ifdef __SANITIZE_ADDRESS__
inline constexpr uint64_t kShareOfSchedules = 4;
#else
inline constexpr uint64_t kShareOfSchedules = 1;
#endif

// Calls `run` with a Random for each schedule; `run` returns an error, or an empty string. The
// environment variables TERN_TEST_SEED and TERN_SCHEDULES set the seed of the first schedule and
// the number of schedules.
template <typename Run>
void each_schedule(uint64_t schedules, Run run) {
    const uint64_t seed = test::any_seed();
    schedules = number_from_environment("TERN_SCHEDULES",
                                        (schedules + kShareOfSchedules - 1) / kShareOfSchedules);
    for (uint64_t i = 0; i < schedules; ++i) {
        const std::string wrong = run(Random(seed + i));
        if (wrong.empty()) continue;
        ADD_FAILURE() << wrong << "\nagain: TERN_TEST_SEED=" << seed + i << " TERN_SCHEDULES=1";
        return;
    }
}

}  // namespace tern
