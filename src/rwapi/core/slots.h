// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/assert.h"

namespace rwapi {

// Notification slots. A slot has its latest value, and the number of notifications since it was
// last reset. The caller checks the numbers of slots by has().
class Slots {
  public:
    explicit Slots(uint32_t count)
        : count_(count), slots_(new Slot[count]), set_((count + 63) / 64) {}

    uint32_t count() const { return count_; }
    bool has(uint32_t slot) const { return slot < count_; }
    bool has(uint32_t first, uint32_t n) const { return n <= count_ && first <= count_ - n; }

    void notify(uint32_t slot, uint64_t value) {
        TERN_ASSERT(has(slot));
        // Apart: GCC would make one store of both, by way of a vector register.
        Slot& notified = slots_[slot];
        __atomic_store_n(&notified.value, value, __ATOMIC_RELAXED);
        ++notified.arrivals;
        set_[slot / 64] |= uint64_t{1} << slot % 64;
    }

    // Whether notify(slot, value) is permitted.
    bool has_value(uint64_t slot, uint64_t value) const { return slot < count_ && value != 0; }

    bool is_set(uint32_t slot) const { return slots_[slot].arrivals != 0; }
    uint64_t value(uint32_t slot) const { return slots_[slot].value; }

    // Empties the slot. Returns the number of notifications since the last reset.
    uint64_t reset(uint32_t slot) {
        TERN_ASSERT(has(slot));
        const uint64_t arrivals = slots_[slot].arrivals;
        slots_[slot] = {};
        set_[slot / 64] &= ~(uint64_t{1} << slot % 64);
        return arrivals;
    }

    // The first slot of [first, first + n) that is set; first + n if there is none.
    uint32_t find(uint32_t first, uint32_t n) const {
        TERN_ASSERT(has(first, n));
        const uint32_t end = first + n;
        for (uint32_t at = first; at < end; at = (at / 64 + 1) * 64) {
            const uint64_t word = set_[at / 64] >> at % 64;
            if (word == 0) continue;
            const uint32_t found = at + static_cast<uint32_t>(std::countr_zero(word));
            return found < end ? found : end;
        }
        return end;
    }

  private:
    struct Slot {
        uint64_t value = 0;
        uint64_t arrivals = 0;
    };

    const uint32_t count_;
    const std::unique_ptr<Slot[]> slots_;
    std::vector<uint64_t> set_;  // one bit for each slot: arrivals != 0
};

}  // namespace rwapi
