// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/receive_queue.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "common/clock.h"
#include "tern/base/tunables.h"
#include "tern/connection/cookie.h"
#include "tern/engine/settings.h"
#include "tern/verbs/async_events.h"

namespace tern {

ReceiveQueue::ReceiveQueue(ibv_pd* pd, const Sizes& sizes) : pd_(pd), sizes_(sizes) {
    pieces_.reserve(sizes.most + sizes.most_kept());
    requests_.reserve(sizes.most + sizes.most_kept());
}

// Bytes of a buffer before the frame. One that can be kept begins with the index of its piece; the
// word of UCX's descriptor and the headroom end where the payload begins.
uint32_t ReceiveQueue::before() const {
    return sizes_.headroom == 0 ? 0
                                : static_cast<uint32_t>(engine_limits::buffer_stride(
                                      sizes_.headroom + uint32_t{2 * sizeof(uint64_t)}));
}

uint32_t& ReceiveQueue::index_of(std::byte* payload) const {
    return *reinterpret_cast<uint32_t*>(payload - sizeof(Word) - before());
}

std::unique_ptr<ReceiveQueue> ReceiveQueue::create(ibv_pd* pd, const Sizes& sizes) {
    std::unique_ptr<ReceiveQueue> queue(new ReceiveQueue(pd, sizes));
    // Not all devices can resize a queue.
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = sizes.most;
    attributes.attr.max_sge = 1;
    attributes.srq_context = verbs::next_identity();
    queue->srq_.reset(ibv_create_srq(pd, &attributes));
    if (!queue->srq_ || !queue->lengthen(sizes.first)) return nullptr;
    if (queue->free_ != nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    return queue;
}

// False: the memory cannot be registered; errno says why.
template <class Use>
bool ReceiveQueue::add(uint32_t buffers, Use&& use) {
    chunks_.reserve(chunks_.size() + 1);
    const size_t stride = before() + engine_limits::buffer_stride(sizes_.bytes);
    verbs::RegisteredMemory memory(pd_, stride * buffers,
                                   IBV_ACCESS_LOCAL_WRITE | verbs::relaxed_access(sizes_.relaxed));
    if (!memory) return false;
    for (uint32_t i = 0; i < buffers; ++i) {
        const auto index = static_cast<uint32_t>(requests_.size());
        std::byte* const frame = memory.data() + stride * i + before();
        pieces_.push_back({.addr = reinterpret_cast<uint64_t>(frame),
                           .length = sizes_.bytes,
                           .lkey = memory.lkey()});
        ibv_recv_wr& request = requests_.emplace_back();
        request.wr_id = work_request_id::receive(index);
        request.sg_list = &pieces_[index];
        request.num_sge = 1;
        if (before() != 0) index_of(pieces_[index]) = index;
        use(request);
    }
    registered_ += memory.size();
    chunks_.push_back(std::move(memory));
    return true;
}

bool ReceiveQueue::lengthen(uint32_t buffers) {
    if (!add(buffers, [this](const ibv_recv_wr& request) {
            release(work_request_id::number(request.wr_id));
        }))
        return false;
    size_ += buffers;
    post();
    return true;
}

bool ReceiveQueue::grow() noexcept try {
    const uint32_t more = std::min(std::max(size() / 4, kReceiveChunk), sizes_.most - size());
    if (more == 0 || !shortage_.may_try(base::monotonic_ns())) return false;
    const bool grown = lengthen(more);
    shortage_.note(grown ? more : 0, more, base::monotonic_ns());
    return grown;
} catch (const std::bad_alloc&) {
    return false;
}

bool ReceiveQueue::add_spares() noexcept try {
    const uint32_t all = static_cast<uint32_t>(requests_.size()) - size();
    const uint32_t more = std::min(std::max(all, kReceiveSpares), sizes_.most_kept() - all);
    if (more == 0 || !shortage_.may_try(base::monotonic_ns())) return false;
    const bool added =
        add(more, [this](ibv_recv_wr& request) { request.next = std::exchange(spare_, &request); });
    shortage_.note(added ? more : 0, more, base::monotonic_ns());
    return added;
} catch (const std::bad_alloc&) {
    return false;
}

// Its place in the queue gets the spare memory, and the spare's place its memory.
void ReceiveQueue::keep(std::byte* payload) {
    const uint32_t index = index_of(payload);
    const uint32_t spare = work_request_id::number(std::exchange(spare_, spare_->next)->wr_id);
    std::swap(pieces_[index], pieces_[spare]);
    index_of(pieces_[index]) = index;
    index_of(payload) = spare;
}

void ReceiveQueue::give_back(std::byte* payload) {
    ibv_recv_wr& request = requests_[index_of(payload)];
    request.next = std::exchange(spare_, &request);
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
