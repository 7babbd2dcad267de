// SPDX-License-Identifier: BSD-3-Clause
// Transport retries and receiver-not-ready retries of one queue pair.
#pragma once

#include <cstdint>

namespace softhca {

constexpr uint8_t kRetryForever = 7;

// A time as a timer keeps it that counts in steps; both in ns. Step 0: exact.
constexpr uint64_t in_steps(uint64_t time, uint64_t step) {
    return step == 0 ? time : (time + step - 1) / step * step;
}

// Counts the retries of the message at the head of a send queue. Times are in ns.
class RetryState {
  public:
    // What devices add to the specification.
    struct Rules {
        uint64_t step = 0;       // of the device's timers
        bool unlimited = false;  // 7 retries have no end, as 7 RNR retries have none
    };

    void configure(uint8_t retry_count, uint8_t rnr_retry, uint64_t ack_timeout_ns,
                   const Rules& rules) {
        step_ = rules.step;
        unlimited_ = rules.unlimited && retry_count == kRetryForever;
        retry_count_ = retry_count;
        rnr_retry_ = rnr_retry;
        ack_timeout_ = in_steps(ack_timeout_ns, step_);
        progress();
    }

    // The message got through; both counters start again.
    void progress() {
        retries_ = 0;
        rnr_retries_ = 0;
        waiting_for_ack_ = false;
    }

    // The responder had no receive; the requester has to wait `timer` ns. *until is the time of the
    // next try; false: there is none.
    bool on_rnr(uint64_t now, uint64_t timer, uint64_t* until) {
        waiting_for_ack_ = false;
        if (rnr_retry_ != kRetryForever && rnr_retries_++ >= rnr_retry_) return false;
        *until = now + in_steps(timer, step_);
        return true;
    }

    // No response came. The first call starts the ACK timer; each later call is one
    // retransmission. With timeout 0, the requester waits for ever and tries again every
    // kForeverPeriod ns.
    bool on_no_response(uint64_t now, uint64_t* until) {
        if (ack_timeout_ == 0) {
            *until = now + kForeverPeriod;
            return true;
        }
        if (waiting_for_ack_ && !unlimited_ && retries_++ >= retry_count_) return false;
        waiting_for_ack_ = true;
        *until = now + ack_timeout_;
        return true;
    }

  private:
    static constexpr uint64_t kForeverPeriod = 10'000'000;
    uint64_t ack_timeout_ = 0;
    uint64_t step_ = 0;
    uint8_t retry_count_ = 0;
    uint8_t rnr_retry_ = 0;
    uint8_t retries_ = 0;
    uint8_t rnr_retries_ = 0;
    bool unlimited_ = false;
    bool waiting_for_ack_ = false;
};

}  // namespace softhca
