// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/srq.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/notice.h"
#include "softhca/transport/responder.h"

namespace softhca {

bool allocate_ring(Host& host, RecvRing& ring, uint32_t max_wr, uint32_t max_sge) {
    const uint32_t entries = std::bit_ceil(max_wr);
    const uint64_t slots = host.allocate_queue(RecvRing::bytes(entries, max_sge));
    if (slots == 0) return false;
    ring.init(host.arena(), slots, entries, max_wr, max_sge);
    return true;
}

int post_to_ring(Host& host, RecvRing& ring, uint64_t wr_id, const Sge* sges, uint32_t count,
                 const RingErrors& errors) {
    if (count > ring.max_sge) return errors.sge;
    if (ring.full()) return errors.full;
    ring.post(host.arena(), wr_id, sges, count);
    return 0;
}

namespace {

// Slots keep their numbers, because messages in progress and unpolled completions refer to them.
void copy_ring(char* base, const RecvRing& from, RecvRing& to) {
    for (uint32_t i = 0; i <= from.mask; ++i) {
        std::memcpy(static_cast<void*>(&to.slot(base, i)), &from.slot(base, i),
                    RecvRing::stride(from.max_sge));
        to.in_use(base, i) = from.in_use(base, i).load(std::memory_order_relaxed);
    }
    const uint64_t tail = from.tail.load(std::memory_order_relaxed);
    for (uint64_t i = from.head.load(std::memory_order_relaxed); i != tail; ++i)
        to.order(base, i) = from.order(base, i);
}

}  // namespace

Srq* Srq::create(Adapter& adapter, const Attributes& attributes) {
    Host& host = adapter.host();
    const auto index = host.srq_indices.allocate();
    if (!index) return nullptr;
    SrqShared& shared = host.tables().srqs[*index];
    if (!allocate_ring(host, shared.ring, attributes.max_wr, attributes.max_sge)) {
        host.srq_indices.release(*index);
        return nullptr;
    }
    shared.pd = attributes.pd;
    shared.xrc_domain = attributes.xrc_domain;
    shared.cq = attributes.cq == nullptr ? 0 : attributes.cq->number();
    shared.claimer = 0;
    ++shared.life;
    shared.limit.store(attributes.limit, std::memory_order_relaxed);
    shared.notices.store(0, std::memory_order_relaxed);
    const uint32_t number = adapter.next_number(*index);
    if (attributes.cq != nullptr) attributes.cq->users.fetch_add(1, std::memory_order_relaxed);
    Srq* srq = new Srq(adapter, &shared, number, attributes.cq, attributes.memory);
    add_queues(host, {0, 0, 1, attributes.memory});
    host.self().objects.shared_receive_queues.fetch_add(1, std::memory_order_relaxed);
    adapter.srqs.put(*index, srq);
    shared.number.store(number, std::memory_order_release);
    return srq;
}

Srq::~Srq() {
    Host& host = adapter_.host();
    const uint32_t index = ObjectNumber::index(number_);
    shared_->number.store(0, std::memory_order_seq_cst);
    host.wait_for_accesses();
    {
        // A poll of that queue may be releasing a slot.
        std::unique_lock<std::mutex> polling;
        if (cq_ != nullptr) polling = std::unique_lock(cq_->poll_mutex);
        adapter_.srqs.drop(index);
    }
    if (cq_ != nullptr) cq_->users.fetch_sub(1, std::memory_order_relaxed);
    host.heap.release(shared_->ring.slots);
    host.srq_indices.release(index);
    remove_queues(host, {0, 0, 1, memory_});
    host.self().objects.shared_receive_queues.fetch_sub(1, std::memory_order_relaxed);
}

int Srq::Posts::post(uint64_t wr_id, const Sge* sges, uint32_t count) {
    Host& host = srq_.adapter_.host();
    const Personality::Errors& errors = host.personality().errors;
    return post_to_ring(host, srq_.shared_->ring, wr_id, sges, count,
                        {errors.srq_full, errors.srq_sge});
}

void Srq::release(uint32_t slot) {
    const std::lock_guard lock(post_mutex_);
    shared_->ring.release_slot(adapter_.host().arena(), slot);
}

int Srq::set_limit(uint32_t limit) {
    if (limit > shared_->ring.capacity) return EINVAL;
    lock_srq(adapter_.host(), *shared_);
    // If the queue is below the limit already, the specification requires the event at once.
    const bool undercut = limit != 0 && shared_->ring.posted() < limit;
    shared_->limit.store(undercut ? 0 : limit, std::memory_order_relaxed);
    shared_->lock.unlock();
    if (undercut) raise_srq_notice(adapter_.host(), *shared_, number_, Notice::kSrqLimit);
    return 0;
}

int Srq::resize(uint32_t max_wr, uint64_t memory) {
    Host& host = adapter_.host();
    const std::lock_guard post_lock(post_mutex_);
    RecvRing& ring = shared_->ring;
    const uint64_t outstanding =
        ring.tail.load(std::memory_order_relaxed) - ring.released.load(std::memory_order_acquire);
    if (outstanding > max_wr) return EINVAL;
    if (max_wr <= ring.mask + 1) {
        ring.capacity = max_wr;  // keeps the slots, since any may be in use
        return 0;
    }
    RecvRing larger;
    if (!allocate_ring(host, larger, max_wr, ring.max_sge)) return ENOMEM;
    lock_srq(host, *shared_);
    copy_ring(host.arena(), ring, larger);
    const uint64_t old = ring.slots;
    ring.slots = larger.slots;
    ring.mask = larger.mask;
    ring.capacity = larger.capacity;
    shared_->lock.unlock();
    host.wait_for_accesses();
    host.heap.release(old);
    add_queues(host, {0, 0, 0, memory});
    remove_queues(host, {0, 0, 0, std::exchange(memory_, memory)});
    return 0;
}

}  // namespace softhca
