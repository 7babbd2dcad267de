// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace tern::verbs {

// The completion that came between the last poll of a queue and the request for an event: it wakes
// nobody, so who is about to sleep takes it and does not. poll() gives it back first.
class LateCompletion {
  public:
    bool waits() const { return waits_; }
    // Behind ibv_req_notify_cq(). True if there is one.
    bool take(ibv_cq* cq) { return waits_ = ibv_poll_cq(cq, 1, &completion_) > 0; }
    // As ibv_poll_cq().
    int poll(ibv_cq* cq, int most, ibv_wc* completions) {
        if (!waits_) [[likely]]
            return ibv_poll_cq(cq, most, completions);
        waits_ = false;
        *completions = completion_;
        return 1;
    }

  private:
    bool waits_ = false;
    ibv_wc completion_{};
};

}  // namespace tern::verbs
