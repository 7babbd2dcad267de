// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tern/connection/retirement.h"
#include "tern/verbs/handles.h"

namespace tern {

// Queue pairs in the error state whose connections are over: destroyed when the device has no
// receive of the shared queue for them any more. Control path.
class RetiredQueuePairs {
  public:
    // `reported`: the device has reported the last receive of `qp`.
    void add(verbs::QueuePair qp, bool reported, uint64_t now) {
        retired_.push_back({std::move(qp), Retirement(now + kLimit, reported)});
    }
    // The device reports the last receive of a queue pair, by its context. False: it is none of
    // these.
    bool on_last_receive(const void* identity) {
        const auto found = std::find_if(retired_.begin(), retired_.end(), [&](const Retired& each) {
            return each.qp->qp_context == identity;
        });
        if (found == retired_.end()) return false;
        found->end.on_last_receive();
        return true;
    }
    // Before this, the events of the device must be taken.
    void tick(uint64_t now) {
        for (Retired& each : retired_) each.end.tick(now);
    }
    // Destroys those that are over. False: there are none.
    bool on_round() {
        for (Retired& each : retired_) each.end.on_round();
        return std::erase_if(retired_, [](const Retired& each) { return each.end.over(); }) != 0;
    }

    bool empty() const { return retired_.empty(); }
    // Whether one needs no more than the next rounds of polls.
    bool need_rounds() const {
        return std::any_of(retired_.begin(), retired_.end(),
                           [](const Retired& each) { return !each.end.awaited(); });
    }
    // When to call tick(); UINT64_MAX: never.
    uint64_t deadline() const {
        uint64_t first = UINT64_MAX;
        for (const Retired& each : retired_) first = std::min(first, each.end.deadline());
        return first;
    }

  private:
    // Nanoseconds. Devices that report the last receive take far less.
    static constexpr uint64_t kLimit = 1'000'000'000;

    struct Retired {
        verbs::QueuePair qp;
        Retirement end;
    };

    std::vector<Retired> retired_;
};

}  // namespace tern
