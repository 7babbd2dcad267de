// SPDX-License-Identifier: BSD-3-Clause
#include "engine/receive_queue.h"

#include <cerrno>

#include "connection/work_request_id.h"
#include "engine/settings.h"
#include "verbs/async_events.h"

namespace tern {

std::unique_ptr<ReceiveQueue> ReceiveQueue::create(ibv_pd* pd, uint32_t buffers,
                                                   uint32_t buffer_size) {
    std::unique_ptr<ReceiveQueue> queue(new ReceiveQueue);
    queue->stride_ = engine_limits::buffer_stride(buffer_size);
    queue->memory_ = verbs::RegisteredMemory(pd, queue->stride_ * buffers, IBV_ACCESS_LOCAL_WRITE);
    if (!queue->memory_) return nullptr;
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = buffers;
    attributes.attr.max_sge = 1;
    attributes.srq_context = verbs::next_identity();
    queue->srq_.reset(ibv_create_srq(pd, &attributes));
    if (!queue->srq_) return nullptr;
    queue->pieces_.resize(buffers);
    queue->requests_.resize(buffers);
    for (uint32_t i = 0; i < buffers; ++i) {
        queue->pieces_[i] = {.addr = reinterpret_cast<uint64_t>(queue->buffer(i)),
                             .length = buffer_size,
                             .lkey = queue->memory_.lkey()};
        queue->requests_[i].wr_id = work_request_id::receive(i);
        queue->requests_[i].sg_list = &queue->pieces_[i];
        queue->requests_[i].num_sge = 1;
        queue->release(i);
    }
    queue->post();
    if (queue->free_ != nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    return queue;
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
