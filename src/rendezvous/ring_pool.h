// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "verbs/memory.h"

namespace tern {

// Rings of registered memory, lent to transfers and to early copies, for as long as these need
// them; no peer has one of its own. Made when they are first needed.
class RingPool {
  public:
    struct Ring {
        std::byte* data = nullptr;
        uint32_t lkey = 0;
        uint32_t rkey = 0;
        uint32_t slots = 0;
        uint32_t number = 0;
    };

    // `slots` of a ring; `most` rings.
    RingPool(ibv_pd* pd, uint32_t slots, uint32_t most) : pd_(pd), slots_(slots), most_(most) {}

    // A ring that nobody else has. False if there is none now.
    bool lend(Ring& ring);
    // The same, of those that there are: nothing is registered for it. Data path.
    bool lend_idle(Ring& ring);
    void give_back(const Ring& ring) { free_.push_back(ring.number); }

    // None can be had, now or later: not even a small one could be registered.
    bool hopeless() const { return refused_ && rings_.empty(); }
    // Memory could not be had: there are fewer or smaller ones than asked for.
    bool refused() const { return refused_; }
    uint32_t slots() const { return slots_; }
    uint32_t in_use() const { return static_cast<uint32_t>(rings_.size() - free_.size()); }
    uint64_t registered_bytes() const { return registered_; }

  private:
    bool grow();

    ibv_pd* pd_;
    uint32_t slots_;
    uint32_t most_;
    bool refused_ = false;
    uint64_t registered_ = 0;
    std::vector<verbs::RegisteredMemory> rings_;
    std::vector<uint32_t> free_;  // the one used last comes first: it is in the cache
};

}  // namespace tern
