// SPDX-License-Identifier: BSD-3-Clause
// Clocks, and time limits for waiting.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

#include "bench/report/statistics.h"
#include "bench/report/text.h"

namespace bench {

// What is measured here has the names of report/.
using namespace report;

inline uint64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// Microseconds since `begin`, a value of now_ns().
inline double us_since(uint64_t begin) {
    return static_cast<double>(now_ns() - begin) / 1000;
}

constexpr uint64_t kPatienceNs = 20'000'000'000;  // the longest wait for anything

// A time limit for a polling loop, which calls spend() in each turn. spend() throws Failure when
// the loop has lasted kPatienceNs. It is cheap because it seldom reads the clock.
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

// Calls idle() until done() is true. Throws Failure after kPatienceNs: `what` did not come.
template <typename Done, typename Idle>
void wait_until(const char* what, Done&& done, Idle&& idle) {
    for (Patience patience(what); !done(); patience.spend()) idle();
}

}  // namespace bench
