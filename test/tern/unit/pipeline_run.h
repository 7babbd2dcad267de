// SPDX-License-Identifier: BSD-3-Clause
// Simulates, chunk by chunk, the staging or pinning that the closed forms of the cost model
// describe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tern/rendezvous/cost_model.h"
#include "tern/rendezvous/schedule.h"

namespace tern {

// One message: a processor and a wire at the sender, a processor at the receiver.
class PipelineRun {
  public:
    PipelineRun(const CostModel& model, uint64_t length)
        : network_(model.costs().network),
          pin_(model.costs().registration),
          copy_(1 / model.copy_bandwidth(length)) {}

    // Copies and sends `length` bytes by the schedule.
    void stage(uint64_t length, const ScheduleLimits& limits) {
        uint64_t index = 0;
        for (Schedule schedule(length, limits); !schedule.done();) {
            const uint32_t count = schedule.next(UINT32_MAX);
            const double bytes = static_cast<double>(SubBlocks::offset(length, index + count) -
                                                     SubBlocks::offset(length, index));
            const double copying = bytes * copy_;
            if (index == 0)
                sender_ = std::max(0.0, copying - 2 * network_.latency);
            else
                sender_ += network_.overhead + copying;
            wire_ = std::max(wire_, sender_) + network_.gap;
            for (uint32_t i = 0; i < count; ++i, ++index) {
                const double block = SubBlocks::bytes(length, index);
                wire_ += (block + SubBlocks::kFlag) / network_.bandwidth;
                receiver_ = std::max(receiver_, wire_ + network_.latency) + block * copy_;
            }
            ++gaps_;
        }
    }

    // Pins `length` bytes in pieces, and sends each piece when both sides have pinned it.
    void place(uint64_t length, uint64_t piece) {
        if (piece == 0) piece = length;
        for (uint64_t at = 0; at < length; at += piece) {
            const double bytes = static_cast<double>(std::min(piece, length - at));
            sender_ += pin_.latency + bytes / pin_.bandwidth;
            wire_ = std::max(wire_, sender_) + network_.gap + bytes / network_.bandwidth;
        }
    }

    double time() const { return std::max(receiver_, wire_ + network_.latency); }
    unsigned gaps() const { return gaps_; }

  private:
    NetworkCosts network_;
    RegistrationCosts pin_;
    double copy_;
    double sender_ = 0;  // time when each resource is free
    double wire_ = 0;
    double receiver_ = 0;
    unsigned gaps_ = 0;
};

}  // namespace tern
