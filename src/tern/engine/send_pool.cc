// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/send_pool.h"

#include <algorithm>
#include <new>

#include "tern/base/tunables.h"
#include "tern/connection/connector.h"
#include "tern/engine/channel.h"
#include "tern/engine/owner.h"
#include "tern/engine/settings.h"
#include "tern/engine/work_requests.h"

namespace tern {

bool SendPool::grow() {
    const uint32_t count = std::min(kSendChunk, most_ - count_);
    if (count == 0 || refused_) return false;
    const size_t stride = engine_limits::buffer_stride(buffer_size_);
    chunks_.push_back({verbs::RegisteredMemory(pd_, stride * count, IBV_ACCESS_LOCAL_WRITE),
                       std::vector<Buffer>(count)});
    Chunk& chunk = chunks_.back();
    if (!chunk.memory) {
        refused_ = true;
        chunks_.pop_back();
        return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
        chunk.buffers[i].data = chunk.memory.data() + stride * i;
        chunk.buffers[i].lkey = chunk.memory.lkey();
        give(&chunk.buffers[i]);
    }
    count_ += count;
    registered_ += chunk.memory.size();
    return true;
}

bool SendPool::grow_later() noexcept try { return grow(); } catch (const std::bad_alloc&) {
    return false;
}

Status SendRoom::no_place(Channel& channel) {
    if (channel.up() && !channel.failed) ++refused_;
    return Status::kNoResource;
}

// The last work request of a connection may be unsignaled; only a later signaled one reports its
// completion, so each such connection gets one, if it has a buffer. All buffers are in use, so
// those who posted them last have them still.
Status SendRoom::no_buffer() {
    ++refused_;
    (void)pool_.grow_again(owner_);
    pool_.for_each_holder([this](uint64_t tag) {
        Connection* const connection = connector_.table().find_send(tag);
        if (connection != nullptr && connection->up())
            requests_.report_all(static_cast<Channel&>(*connection));
    });
    return Status::kNoResource;
}

}  // namespace tern
