// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "tern/base/shortage.h"
#include "tern/rendezvous/progress_budget.h"
#include "tern/rendezvous/schedule.h"
#include "tern/verbs/memory.h"

namespace tern {

// Rings of registered memory, lent to transfers and early copies for as long as needed; no ring
// belongs to a peer. A ring is made when it is first needed.
//
// A ring that peers write to has flags in fixed places, which hold no data. A read puts bytes of
// the peer there, which may be the flags of a later transfer. So the places are zeroed after a
// read, before peers write to the ring again.
class RingPool {
  public:
    struct Ring {
        std::byte* data = nullptr;
        uint32_t lkey = 0;
        uint32_t rkey = 0;
        uint32_t slots = 0;
        uint32_t number = 0;
    };

    // `slots` of each ring; at most `most` rings. `make_room`: frees so many locked bytes, if it
    // can; called when a registration is refused. `refusal`: how long none is tried then.
    RingPool(ibv_pd* pd, uint32_t slots, uint32_t most, std::function<bool(uint64_t)> make_room,
             std::chrono::milliseconds refusal = std::chrono::milliseconds(kMemoryRetry))
        : pd_(pd),
          wanted_(slots),
          slots_(slots),
          most_(most),
          make_room_(std::move(make_room)),
          shortage_(scarce::kRing, static_cast<uint64_t>(refusal.count())) {}

    // Lends a ring. False: none is free. Data path.
    bool lend(Ring& ring);
    // Lends a ring; if none is free, registers another one, as `budget` allows. False: there is
    // none now; if may_grow(), there will be one soon.
    bool lend(Ring& ring, ProgressBudget& budget) {
        if (may_grow() && budget.may_make_ring(ring_size())) [[unlikely]]
            grow();
        return lend(ring);
    }
    // Whether a peer that holds this many rings may have one more. A peer may hold twice as many as
    // it leaves to the others, so a peer that makes no progress, or several, do not hold all.
    bool serves(uint32_t held) const {
        const auto all = refused_ ? static_cast<uint32_t>(rings_.size()) : most_;
        return held == 0 || held < 2 * (all - in_use());
    }
    // None is free, but another one can be made; or all are free, smaller than wanted, and may be
    // replaced.
    bool may_grow() const {
        if (!refused_) [[likely]]
            return free_.empty() && rings_.size() < most_;
        return may_try_again();
    }
    // Registers the next ring. Afterwards lend() succeeds, or may_grow() does not hold for a while.
    void grow();
    bool give_up(uint64_t bytes) { return make_room_ && make_room_(bytes); }
    // Bytes of the next ring.
    size_t ring_size() const { return size_t{next_slots()} * SubBlocks::kSlot; }
    // `ring`: lent by this pool, and used by no work request any more.
    void give_back(const Ring& ring);

    // A read into the ring begins: the places of its flags get bytes of the peer.
    void read_into(const Ring& ring) { overwritten_[ring.number] = true; }
    // Peers will write to the ring: zeros its flags if reads have overwritten them.
    void prepare_flags(const Ring& ring) {
        if (overwritten_[ring.number]) zero_flags(ring);
    }

    // Not even a small ring could be registered: there is none for a while.
    bool cannot_register() const { return refused_ && rings_.empty() && !may_try_again(); }
    // A registration has failed lately: the rings are fewer or smaller than asked for.
    bool refused() const { return refused_; }
    uint32_t slots() const { return slots_; }
    uint32_t in_use() const { return static_cast<uint32_t>(rings_.size() - free_.size()); }
    uint64_t registered_bytes() const { return registered_; }

  private:
    bool may_be_replaced() const { return slots_ < wanted_ && in_use() == 0; }
    uint32_t next_slots() const { return may_be_replaced() ? wanted_ : slots_; }
    bool may_try_again() const;
    bool add(uint32_t slots);
    void zero_flags(const Ring& ring);

    ibv_pd* pd_;
    const uint32_t wanted_;
    uint32_t slots_;  // of all rings
    uint32_t most_;
    std::function<bool(uint64_t)> make_room_;
    Shortage shortage_;
    bool refused_ = false;
    uint64_t registered_ = 0;
    std::vector<verbs::RegisteredMemory> rings_;
    std::vector<bool> overwritten_;  // by ring: a read may have left anything in its flags
    std::vector<uint32_t> free_;     // the ring used last is lent first: it is in the cache
};

}  // namespace tern
