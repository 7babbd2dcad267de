// SPDX-License-Identifier: BSD-3-Clause
// Time, and waiting that ends.
#pragma once

#include <time.h>

#include <cstdint>

#include "bench/measure/failure.h"

namespace bench {

inline uint64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

constexpr uint64_t kPatienceNs = 20'000'000'000;  ///< nothing that is waited for takes longer

/// To be called in a polling loop: throws when the loop has lasted too long. Cheap, because it
/// seldom looks at the clock.
class Patience {
  public:
    explicit Patience(const char* what) : what_(what) {}
    void spend() {
        if (++spent_ % kBetween != 0) return;
        const uint64_t now = now_ns();
        if (end_ == 0) end_ = now + kPatienceNs;
        if (now > end_) throw Failure(std::string("timed out waiting for ") + what_);
    }

  private:
    static constexpr uint32_t kBetween = 16384;
    const char* what_;
    uint32_t spent_ = 0;
    uint64_t end_ = 0;
};

}  // namespace bench
