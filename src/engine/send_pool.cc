// SPDX-License-Identifier: BSD-3-Clause
#include "engine/send_pool.h"

#include <algorithm>

namespace tern {

bool SendPool::grow() {
    const uint32_t count = std::min(kChunk, most_ - count_);
    if (count == 0) return false;
    // Each buffer begins on its own cache line.
    const size_t stride = (size_t{buffer_size_} + 63) & ~size_t{63};
    Chunk chunk{verbs::RegisteredMemory(pd_, stride * count, IBV_ACCESS_LOCAL_WRITE),
                std::vector<Buffer>(count)};
    if (!chunk.memory) {
        most_ = count_;
        refused_ = true;
        return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
        chunk.buffers[i].data = chunk.memory.data() + stride * i;
        chunk.buffers[i].lkey = chunk.memory.lkey();
        give(&chunk.buffers[i]);
    }
    count_ += count;
    registered_ += chunk.memory.size();
    chunks_.push_back(std::move(chunk));
    return true;
}

}  // namespace tern
