// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/ring_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/assert.h"
#include "common/clock.h"
#include "common/make_room.h"
#include "tern/base/trace.h"

namespace tern {

bool RingPool::lend(Ring& ring) {
    if (free_.empty()) return false;
    const uint32_t number = free_.back();
    free_.pop_back();
    const verbs::RegisteredMemory& memory = rings_[number];
    ring = {.data = memory.data(),
            .lkey = memory.lkey(),
            .rkey = memory.rkey(),
            .slots = slots_,
            .number = number};
    return true;
}

void RingPool::give_back(const Ring& ring) {
    TERN_ASSERT(ring.number < rings_.size() && rings_[ring.number].data() == ring.data);
    TERN_ASSERT(std::find(free_.begin(), free_.end(), ring.number) == free_.end());
    free_.push_back(ring.number);
}

// The device has completed the reads, and no peer writes to the ring yet: its address is sent
// later.
void RingPool::zero_flags(const Ring& ring) {
    overwritten_[ring.number] = false;
    for (uint32_t slot = 0; slot < ring.slots; ++slot)
        memset(ring.data + size_t{slot} * SubBlocks::kSlot + SubBlocks::kSubBlock, 0,
               SubBlocks::kFlag);
}

bool RingPool::may_try_again() const {
    const bool wants = free_.empty() ? rings_.size() < most_ : may_be_replaced();
    return wants && shortage_.may_try(base::monotonic_ns());
}

void RingPool::grow() {
    // All rings have the same size. A small one is enough to go on.
    const uint64_t slots = next_slots();
    const uint64_t least = rings_.empty() ? 1 : slots == slots_ ? slots_ : 2 * slots_;
    const auto attempt = [this](uint64_t bytes) {
        return add(static_cast<uint32_t>(bytes / SubBlocks::kSlot));
    };
    const uint64_t bytes = slots * SubBlocks::kSlot;
    if (shortage_.obtain(bytes, least * SubBlocks::kSlot, base::monotonic_ns(), attempt, *this) !=
        bytes)
        refused_ = true;
}

bool RingPool::add(uint32_t slots) {
    verbs::RegisteredMemory memory(pd_, size_t{slots} * SubBlocks::kSlot,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!memory) return false;
    if (slots != slots_ && !rings_.empty()) {
        TERN_ASSERT(in_use() == 0);
        rings_.clear();
        overwritten_.clear();
        free_.clear();
        registered_ = 0;
    }
    slots_ = slots;
    if (slots_ == wanted_) refused_ = false;
    registered_ += memory.size();
    base::make_room(free_, rings_.size() + 1);  // for those that come back
    base::make_room(overwritten_, rings_.size() + 1);
    rings_.push_back(std::move(memory));
    overwritten_.push_back(false);
    free_.push_back(static_cast<uint32_t>(rings_.size() - 1));
    TERN_DEBUG("ring %zu of at most %u is registered: %u slots of %u", rings_.size(), most_, slots_,
               wanted_);
    return true;
}

}  // namespace tern
