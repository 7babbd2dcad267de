// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "verbs/memory.h"

namespace tern {

// Rings of registered memory, lent to transfers and early copies for as long as needed; no ring
// belongs to a peer. A ring is registered when it is first needed.
class RingPool {
  public:
    struct Ring {
        std::byte* data = nullptr;
        uint32_t lkey = 0;
        uint32_t rkey = 0;
        uint32_t slots = 0;
        uint32_t number = 0;
    };

    // `slots` of each ring; at most `most` rings.
    RingPool(ibv_pd* pd, uint32_t slots, uint32_t most) : pd_(pd), slots_(slots), most_(most) {}

    // Lends a ring. False: none is free, and none can be registered now.
    bool lend(Ring& ring);
    // The same, but registers nothing. Data path.
    bool lend_idle(Ring& ring);
    // Whether lend() would register a ring although others will be given back.
    bool may_wait() const {
        return free_.empty() && !rings_.empty() && !refused_ && rings_.size() < most_;
    }
    void give_back(const Ring& ring) { free_.push_back(ring.number); }

    // Not even a small ring could be registered: there will be none.
    bool hopeless() const { return refused_ && rings_.empty(); }
    // A registration has failed: the rings are fewer or smaller than asked for.
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
    std::vector<uint32_t> free_;  // the ring used last is lent first: it is in the cache
};

}  // namespace tern
