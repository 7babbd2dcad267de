// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdlib>

namespace tern::test {

// How long a test waits for what must come. So long that only a defect gets there, also where
// other programs leave a test little of a processor; what is right never waits so long.
// TERN_TEST_PATIENCE=N: N times as long as usual, on emulated processors.
inline std::chrono::seconds patience() {
    static const char* const given = std::getenv("TERN_TEST_PATIENCE");
    return std::chrono::seconds(120) * (given != nullptr ? std::atoi(given) : 1);
}

// For alarm(), which ends a test that hangs: later than all that waits.
inline unsigned alarm_seconds() {
    return 2 * static_cast<unsigned>(patience().count());
}

}  // namespace tern::test
