// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/api/uct.h>

#include <cstddef>
#include <string>

namespace rwapi {

// uct_worker_progress() of the UCX that is loaded. UCX's own function is inline, so a program has
// that of the release it was compiled for, which crashes with others.
class WorkerProgress {
  public:
    WorkerProgress();

    // Why `program` cannot use the UCX that is loaded, and the remedy. Empty: it can.
    std::string misfit(const std::string& program) const;

    unsigned operator()(uct_worker_h worker) const {
        unsigned events = 0;
        const auto* next = reinterpret_cast<const std::byte*>(worker->progress_q.fast_elems);
        for (;; next += element_bytes_) {
            const auto& element = *reinterpret_cast<const ucs_callbackq_elem_t*>(next);
            if (element.cb == nullptr) return events;  // behind the last one
            events += element.cb(element.arg);
        }
    }

  private:
    size_t element_bytes_;
};

}  // namespace rwapi
