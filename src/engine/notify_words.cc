// SPDX-License-Identifier: BSD-3-Clause
#include "engine/notify_words.h"

namespace tern {

NotifyWords::Word NotifyWords::take() {
    if (free_.empty()) {
        verbs::RegisteredMemory chunk(pd_, kChunk,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (!chunk) return {};
        for (size_t at = chunk.size(); at != 0; at -= sizeof(uint64_t))
            free_.push_back(
                {reinterpret_cast<uint32_t*>(chunk.data() + at - sizeof(uint64_t)), chunk.rkey()});
        chunks_.push_back(std::move(chunk));
    }
    const Word word = free_.back();
    free_.pop_back();
    __atomic_store_n(word.at, notify::kNever, __ATOMIC_RELAXED);
    return word;
}

size_t NotifyWords::registered_bytes() const {
    size_t bytes = 0;
    for (const verbs::RegisteredMemory& chunk : chunks_) bytes += chunk.size();
    return bytes;
}

}  // namespace tern
