// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/base/tunables.h"
#include "tern/engine/poll_budget.h"

namespace tern {

// Puts with immediate data that peers repeat are seen in the completion queue only. While they
// come, each poll looks there.
class RepeatedArrivals {
  public:
    explicit RepeatedArrivals(PollBudget& budget) : budget_(budget) {}

    // One has come, or is announced.
    void expect() {
        quiet_ = 0;
        if (!expected_) [[unlikely]]
            begin();
    }
    // Called every kSeldomPolls polls that look at everything.
    void look() {
        if (!expected_ || ++quiet_ < kQuietLooks) return;
        expected_ = false;
        budget_.end_reason();
    }

  private:
    [[gnu::noinline, gnu::cold]] void begin() {
        expected_ = true;
        budget_.begin_reason();
    }

    PollBudget& budget_;
    bool expected_ = false;
    uint32_t quiet_ = 0;
};

}  // namespace tern
