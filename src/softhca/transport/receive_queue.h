// SPDX-License-Identifier: BSD-3-Clause
// The receives of a queue pair, of its own queue or a shared one, as its owner posts and flushes
// them. Messages take them by the functions of responder.h.
#pragma once

#include <cstdint>
#include <mutex>

#include "softhca/core/types.h"

namespace softhca {

class Qp;

class ReceiveQueue {
  public:
    explicit ReceiveQueue(Qp& qp) : qp_(qp) {}

    // 0, or the personality's error for a full queue or too many elements.
    int post(uint64_t wr_id, const Sge* sges, uint32_t count);

    // The rest is under the queue pair's execute_mutex.
    // In state err: flushes the receives. Devices that take those of a shared queue ahead do so
    // later.
    void end();
    // What is due at `now`; called by the progress engine.
    void run_scheduled(uint64_t now);
    // Forgets all receives.
    void clear();

  private:
    void flush();
    void release_claim();

    Qp& qp_;
    std::mutex post_mutex_;
    uint64_t flush_at_ = 0;  // ns; 0: not scheduled
    bool ends_ = false;      // in state err; of a shared queue: flush_at_ is set
    bool last_event_ = false;
};

}  // namespace softhca
