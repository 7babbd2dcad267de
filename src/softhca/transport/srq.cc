// SPDX-License-Identifier: BSD-3-Clause
#include "transport/srq.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/adapter.h"
#include "transport/cq.h"
#include "transport/notice.h"
#include "transport/responder.h"

namespace softhca {

bool allocate_ring(Host& host, RecvRing& ring, uint32_t max_wr, uint32_t max_sge) {
    uint32_t entries = 1;
    while (entries < max_wr) {
        entries *= 2;
    }
    const uint64_t slots = host.heap.allocate(entries * RecvRing::stride(max_sge));
    if (slots == 0) {
        return false;
    }
    ring.slots = slots;
    ring.mask = entries - 1;
    ring.capacity = max_wr == 0 ? 0 : entries;
    ring.max_sge = max_sge;
    ring.tail.store(0, std::memory_order_relaxed);
    ring.head.store(0, std::memory_order_relaxed);
    ring.released.store(0, std::memory_order_relaxed);
    return true;
}

int post_to_ring(Host& host, RecvRing& ring, uint64_t wr_id, const Sge* sges, uint32_t count) {
    if (count > ring.max_sge) {
        return EINVAL;
    }
    if (ring.full()) {
        return ENOMEM;
    }
    const uint64_t tail = ring.tail.load(std::memory_order_relaxed);
    RecvWqe& wqe = ring.at(host.arena() + ring.slots, tail);
    wqe.wr_id = wr_id;
    wqe.num_sge = count;
    std::copy(sges, sges + count, wqe.sges());
    ring.tail.store(tail + 1, std::memory_order_release);
    return 0;
}

Srq* Srq::create(Adapter& adapter, const Attributes& attributes) {
    Host& host = adapter.host();
    const auto index = host.srq_indices.take();
    if (!index) {
        return nullptr;
    }
    SrqShared& shared = host.tables().srqs[*index];
    if (!allocate_ring(host, shared.ring, attributes.max_wr, attributes.max_sge)) {
        host.srq_indices.give_back(*index);
        return nullptr;
    }
    shared.pd = attributes.pd;
    shared.device = attributes.device;
    shared.xrc_domain = attributes.xrc_domain;
    shared.cq = attributes.cq == nullptr ? 0 : attributes.cq->number();
    shared.claimer = 0;
    shared.limit.store(attributes.limit, std::memory_order_relaxed);
    shared.notices.store(0, std::memory_order_relaxed);
    const uint32_t number = adapter.next_number(*index);
    if (attributes.cq != nullptr) {
        attributes.cq->users.fetch_add(1, std::memory_order_relaxed);
    }
    Srq* srq = new Srq(adapter, &shared, number, attributes.cq);
    adapter.srqs.put(*index, srq);
    shared.number.store(number, std::memory_order_release);
    return srq;
}

Srq::~Srq() {
    Host& host = adapter_.host();
    const uint32_t index = ObjectNumber::index(number_);
    shared_->number.store(0, std::memory_order_seq_cst);
    host.wait_for_accesses();
    adapter_.srqs.drop(index);
    if (cq_ != nullptr) {
        cq_->users.fetch_sub(1, std::memory_order_relaxed);
    }
    host.heap.release(shared_->ring.slots);
    host.srq_indices.give_back(index);
}

int Srq::post(uint64_t wr_id, const Sge* sges, uint32_t count) {
    const std::lock_guard lock(post_mutex_);
    return post_to_ring(adapter_.host(), shared_->ring, wr_id, sges, count);
}

int Srq::set_limit(uint32_t limit) {
    if (limit > shared_->ring.capacity) {
        return EINVAL;
    }
    lock_srq(adapter_.host(), *shared_);
    // A limit already undercut is reported at once, as the specification asks.
    const bool undercut = limit != 0 && shared_->ring.posted() < limit;
    shared_->limit.store(undercut ? 0 : limit, std::memory_order_relaxed);
    shared_->lock.unlock();
    if (undercut) {
        notify_srq(adapter_, *shared_, number_, QueueFlags::kSrqLimit);
    }
    return 0;
}

int Srq::resize(uint32_t max_wr) {
    Host& host = adapter_.host();
    const std::lock_guard post_lock(post_mutex_);
    RecvRing fresh;
    if (!allocate_ring(host, fresh, max_wr, shared_->ring.max_sge)) {
        return ENOMEM;
    }
    lock_srq(host, *shared_);
    RecvRing& ring = shared_->ring;
    const uint64_t first = ring.released.load(std::memory_order_relaxed);
    const uint64_t tail = ring.tail.load(std::memory_order_relaxed);
    // Receives that were taken but not yet polled may still be read, at their index; so they move,
    // too.
    const uint64_t oldest = std::min(first, ring.head.load(std::memory_order_relaxed));
    if (tail - oldest > fresh.capacity) {
        shared_->lock.unlock();
        host.heap.release(fresh.slots);
        return EINVAL;
    }
    for (uint64_t i = oldest; i != tail; ++i) {
        std::memcpy(static_cast<void*>(&fresh.at(host.arena() + fresh.slots, i)),
                    &ring.at(host.arena() + ring.slots, i), RecvRing::stride(ring.max_sge));
    }
    const uint64_t old = ring.slots;
    ring.slots = fresh.slots;
    ring.mask = fresh.mask;
    ring.capacity = fresh.capacity;
    shared_->lock.unlock();
    host.wait_for_accesses();
    host.heap.release(old);
    return 0;
}

}  // namespace softhca
