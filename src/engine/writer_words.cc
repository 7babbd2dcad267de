// SPDX-License-Identifier: BSD-3-Clause
#include "engine/writer_words.h"

namespace tern {

WriterWords::Words WriterWords::take() {
    if (free_.empty()) {
        verbs::RegisteredMemory chunk(pd_, kChunk,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (!chunk) return {};
        for (size_t at = chunk.size(); at != 0; at -= sizeof(Pair))
            free_.push_back(
                {reinterpret_cast<Pair*>(chunk.data() + at - sizeof(Pair)), chunk.rkey()});
        chunks_.push_back(std::move(chunk));
    }
    const Words words = free_.back();
    free_.pop_back();
    __atomic_store_n(&words.at->notify, notify::kNever, __ATOMIC_RELAXED);
    __atomic_store_n(&words.at->credit, 0, __ATOMIC_RELAXED);
    return words;
}

size_t WriterWords::registered_bytes() const {
    size_t bytes = 0;
    for (const verbs::RegisteredMemory& chunk : chunks_) bytes += chunk.size();
    return bytes;
}

}  // namespace tern
