// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/receive_queue.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "common/clock.h"
#include "tern/connection/work_request_id.h"
#include "tern/engine/settings.h"
#include "tern/verbs/async_events.h"

namespace tern {

ReceiveQueue::ReceiveQueue(ibv_pd* pd, uint32_t most, uint32_t buffer_size)
    : pd_(pd), most_(most), buffer_size_(buffer_size) {
    pieces_.reserve(most);
    requests_.reserve(most);
}

std::unique_ptr<ReceiveQueue> ReceiveQueue::create(ibv_pd* pd, uint32_t buffers, uint32_t most,
                                                   uint32_t buffer_size) {
    std::unique_ptr<ReceiveQueue> queue(new ReceiveQueue(pd, most, buffer_size));
    // Not all devices can resize a queue.
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = most;
    attributes.attr.max_sge = 1;
    attributes.srq_context = verbs::next_identity();
    queue->srq_.reset(ibv_create_srq(pd, &attributes));
    if (!queue->srq_ || !queue->add(buffers)) return nullptr;
    if (queue->free_ != nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    return queue;
}

// False: the memory cannot be registered; errno says why.
bool ReceiveQueue::add(uint32_t buffers) {
    const size_t stride = engine_limits::buffer_stride(buffer_size_);
    chunks_.reserve(chunks_.size() + 1);
    verbs::RegisteredMemory memory(pd_, stride * buffers, IBV_ACCESS_LOCAL_WRITE);
    if (!memory) return false;
    for (uint32_t i = 0; i < buffers; ++i) {
        const uint32_t index = size();
        pieces_.push_back({.addr = reinterpret_cast<uint64_t>(memory.data() + stride * i),
                           .length = buffer_size_,
                           .lkey = memory.lkey()});
        ibv_recv_wr& request = requests_.emplace_back();
        request.wr_id = work_request_id::receive(index);
        request.sg_list = &pieces_[index];
        request.num_sge = 1;
        release(index);
    }
    registered_ += memory.size();
    chunks_.push_back(std::move(memory));
    post();
    return true;
}

bool ReceiveQueue::grow() noexcept try {
    const uint32_t more = std::min(std::max(size() / 4, kLeastChunk), most_ - size());
    if (more == 0 || !shortage_.may_try(base::monotonic_ns())) return false;
    const bool grown = add(more);
    shortage_.note(grown ? more : 0, more, base::monotonic_ns());
    return grown;
} catch (const std::bad_alloc&) {
    return false;
}

void ReceiveQueue::post() {
    if (free_ == nullptr) return;
    ibv_recv_wr* refused = nullptr;
    // Refused receives stay free and are posted with the next batch.
    if (ibv_post_srq_recv(srq_.get(), free_, &refused) == 0) refused = nullptr;
    free_ = refused;
    free_count_ = 0;
}

}  // namespace tern
