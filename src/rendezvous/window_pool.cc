// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/window_pool.h"

#include <utility>

#include "rendezvous/schedule.h"

namespace tern {

bool WindowPool::lend(Window& window) {
    return (!free_.empty() || grow()) && lend_idle(window);
}

bool WindowPool::lend_idle(Window& window) {
    if (free_.empty()) return false;
    const uint32_t number = free_.back();
    free_.pop_back();
    const verbs::RegisteredMemory& memory = windows_[number];
    window = {.data = memory.data(),
              .lkey = memory.lkey(),
              .rkey = memory.rkey(),
              .slots = slots_,
              .number = number};
    return true;
}

bool WindowPool::grow() {
    if (refused_ || windows_.size() >= most_) return false;
    for (;;) {
        verbs::RegisteredMemory memory(pd_, size_t{slots_} * SubBlocks::kSlot,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (memory) {
            registered_ += memory.size();
            free_.push_back(static_cast<uint32_t>(windows_.size()));
            windows_.push_back(std::move(memory));
            return true;
        }
        refused_ = true;
        // One small window is enough to go on; all have the same size.
        if (!windows_.empty() || slots_ == 1) return false;
        slots_ /= 2;
    }
}

}  // namespace tern
