// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>

#include "tern/base/tunables.h"

namespace tern {

// Says when a side that waits for its peer's process has waited for long, and should look whether
// the peer is alive, or do without it: after many calls of progress that found nothing, or after
// some time. A program that polls all the time seldom reads the clock for that; one that gives its
// processor away between two polls, or computes, makes few calls.
class IdleTime {
  public:
    explicit IdleTime(std::chrono::nanoseconds most = std::chrono::milliseconds(100))
        : most_(most) {}

    // Calls since the last one that found something.
    uint32_t calls() const { return calls_; }
    void end() { calls_ = 0; }
    // A call has found nothing. True: it is time to look; then the count begins anew.
    bool count() { return ++calls_ % kCallsPerLook == 0 && look(); }

  private:
    using Clock = std::chrono::steady_clock;

    [[gnu::noinline]] bool look() {
        const Clock::time_point now = Clock::now();
        if (calls_ == kCallsPerLook) since_ = now;
        if (calls_ < kIdleCalls && now - since_ < most_) return false;
        calls_ = 0;
        return true;
    }

    std::chrono::nanoseconds most_;
    uint32_t calls_ = 0;
    Clock::time_point since_;
};

}  // namespace tern
