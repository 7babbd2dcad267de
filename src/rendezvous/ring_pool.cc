// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/ring_pool.h"

#include <utility>

#include "rendezvous/schedule.h"

namespace tern {

bool RingPool::lend(Ring& ring) {
    return (!free_.empty() || grow()) && lend_idle(ring);
}

bool RingPool::lend_idle(Ring& ring) {
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

bool RingPool::grow() {
    if (refused_ || rings_.size() >= most_) return false;
    for (;;) {
        verbs::RegisteredMemory memory(pd_, size_t{slots_} * SubBlocks::kSlot,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (memory) {
            registered_ += memory.size();
            free_.push_back(static_cast<uint32_t>(rings_.size()));
            rings_.push_back(std::move(memory));
            return true;
        }
        refused_ = true;
        // All rings have the same size. A small one is enough to go on.
        if (!rings_.empty() || slots_ == 1) return false;
        slots_ /= 2;
    }
}

}  // namespace tern
