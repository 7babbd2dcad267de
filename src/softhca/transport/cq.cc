// SPDX-License-Identifier: BSD-3-Clause
#include "transport/cq.h"

#include <algorithm>
#include <cerrno>

#include "transport/adapter.h"
#include "transport/notice.h"
#include "transport/qp.h"
#include "transport/srq.h"

namespace softhca {

namespace {

Cqe* slots_of(Host& host, CqShared& cq) {
    char* base = host.arena(ObjectNumber::process(cq.number.load(std::memory_order_relaxed)));
    return reinterpret_cast<Cqe*>(base + cq.ring);
}

/// Publishes the entry at the tail and lets go of what it completes: a receive that was being
/// filled is done.
void publish(Host& host, CqShared& cq, uint64_t tail, const Cqe& cqe) {
    if (cqe.wc.releases == Releases::receive_queue ||
        cqe.wc.releases == Releases::shared_receive_queue) {
        if (QpShared* qp = host.qp(cqe.wc.qp_num)) {
            qp->claim.valid.store(0, std::memory_order_relaxed);
        }
    }
    const bool wants_attention = cqe.wc.solicited || cqe.wc.status != WcStatus::success;
    if (wants_attention) {
        cq.solicited_tail = tail + 1;
    }
    cq.tail.store(tail + 1, std::memory_order_release);
}

/// A producer died inside push_completion(): finish what it had committed.
void repair(Host& host, CqShared& cq) {
    const uint64_t tail = cq.tail.load(std::memory_order_relaxed);
    CompletionRing ring(slots_of(host, cq), cq.mask);
    if (ring.committed(tail)) {
        publish(host, cq, tail, ring.at(tail));
    }
}

void lock(Host& host, CqShared& cq) {
    cq.lock.lock(host, [&] { repair(host, cq); });
}

/// Under the lock: whether the owner is to get an event now.
bool event_due(const CqShared& cq) {
    const uint32_t armed = cq.armed.load(std::memory_order_relaxed);
    if (armed == 0) {
        return false;
    }
    const uint64_t newest =
        armed == CqShared::kArmedNext ? cq.tail.load(std::memory_order_relaxed) : cq.solicited_tail;
    return newest > std::max(cq.notified_tail, cq.head.load(std::memory_order_relaxed));
}

void take_event(CqShared& cq, uint64_t visible_at) {
    cq.armed.store(0, std::memory_order_relaxed);
    cq.notified_tail = cq.tail.load(std::memory_order_relaxed);
    cq.event_at.store(visible_at, std::memory_order_relaxed);
}

uint64_t round_up(uint64_t entries) {
    uint64_t size = 16;
    while (size < entries) {
        size *= 2;
    }
    return size;
}

}  // namespace

bool push_completion(Adapter& adapter, CqShared& cq, const Completion& wc, uint64_t position) {
    Host& host = adapter.host();
    const uint32_t number = cq.number.load(std::memory_order_acquire);
    lock(host, cq);
    const uint64_t tail = cq.tail.load(std::memory_order_relaxed);
    if (tail - cq.head_seen >= cq.capacity) {
        cq.head_seen = cq.head.load(std::memory_order_acquire);
    }
    const bool full = tail - cq.head_seen >= cq.capacity;
    if (full || cq.failed.load(std::memory_order_relaxed) != 0) {
        const bool first = cq.failed.exchange(1, std::memory_order_relaxed) == 0;
        cq.lock.unlock();
        if (first) {
            notify_cq(adapter, cq, number, QueueFlags::kCqError);
        }
        return false;
    }
    CompletionRing ring(slots_of(host, cq), cq.mask);
    ring.write(tail, wc, position);
    publish(host, cq, tail, ring.at(tail));
    const bool event = event_due(cq);
    if (event) {
        take_event(cq, wc.visible_at);
    }
    cq.lock.unlock();
    if (event) {
        notify_cq(adapter, cq, number, QueueFlags::kCqEvent);
    }
    host.self().counters.completions.fetch_add(1, std::memory_order_relaxed);
    return true;
}

void settle_completions(Host& host, CqShared& cq) {
    lock(host, cq);
    cq.lock.unlock();
}

Cq* Cq::create(Adapter& adapter, uint32_t entries) {
    Host& host = adapter.host();
    const auto index = host.cq_indices.take();
    if (!index) {
        return nullptr;
    }
    const uint64_t size = round_up(entries);
    const uint64_t ring = host.heap.allocate(size * sizeof(Cqe));
    if (ring == 0) {
        host.cq_indices.give_back(*index);
        return nullptr;
    }
    CqShared& shared = host.tables().cqs[*index];
    const uint32_t number = adapter.next_number(*index);
    Cq* cq = new Cq(adapter, &shared, number);
    cq->slots_ = reinterpret_cast<Cqe*>(host.arena() + ring);
    cq->mask_ = size - 1;
    for (uint64_t i = 0; i < size; ++i) {
        new (&cq->slots_[i]) Cqe();
    }
    shared.ring = ring;
    shared.mask = size - 1;
    shared.capacity = size;
    shared.armed.store(0, std::memory_order_relaxed);
    shared.failed.store(0, std::memory_order_relaxed);
    shared.notices.store(0, std::memory_order_relaxed);
    shared.notified_tail = 0;
    shared.solicited_tail = 0;
    shared.head_seen = 0;
    shared.tail.store(0, std::memory_order_relaxed);
    shared.head.store(0, std::memory_order_relaxed);
    shared.number.store(number, std::memory_order_release);
    adapter.cqs.put(*index, cq);
    return cq;
}

Cq::~Cq() {
    Host& host = adapter_.host();
    const uint32_t index = ObjectNumber::index(number_);
    adapter_.cqs.drop(index);
    shared_->number.store(0, std::memory_order_seq_cst);
    host.wait_for_accesses();
    host.heap.release(shared_->ring);
    host.cq_indices.give_back(index);
}

int Cq::nothing_to_poll() {
    adapter_.engine().help();
    return shared_->failed.load(std::memory_order_relaxed) != 0 ? -1 : 0;
}

Cqe* Cq::next(uint64_t head, uint64_t tail) {
    CompletionRing ring(slots_, mask_);
    if (!adapter_.stamped()) {
        return &ring.at(head);
    }
    return ring.next_visible(head, tail, now_ns());
}

/// Gives the queue entry back that a completion stands for: the moment a real device's driver frees
/// it, too.
void Cq::release_entry(const Cqe& cqe) {
    switch (cqe.wc.releases) {
        case Releases::send_queue:
            if (Qp* qp = adapter_.qps.get(cqe.wc.owner)) {
                qp->release_send(cqe.position);
            }
            break;
        case Releases::receive_queue:
            if (Qp* qp = adapter_.qps.get(cqe.wc.owner)) {
                qp->shared().ring.give_back(adapter_.host().arena(), cqe.wc.slot);
            }
            break;
        case Releases::shared_receive_queue:
            if (Srq* srq = adapter_.srqs.get(cqe.wc.owner)) {
                srq->release(cqe.wc.slot);
            }
            break;
        case Releases::nothing:
            break;
    }
}

void Cq::arm(bool solicited_only) {
    Host& host = adapter_.host();
    lock(host, *shared_);
    if (!solicited_only || shared_->armed.load(std::memory_order_relaxed) == 0) {
        shared_->armed.store(solicited_only ? CqShared::kArmedSolicited : CqShared::kArmedNext,
                             std::memory_order_relaxed);
    }
    const bool event = event_due(*shared_);
    if (event) {
        uint64_t visible_at = 0;
        if (adapter_.stamped()) {
            CompletionRing ring(slots_, shared_->mask);
            visible_at = ring.at(shared_->tail.load(std::memory_order_relaxed) - 1).wc.visible_at;
        }
        take_event(*shared_, visible_at);
    }
    shared_->lock.unlock();
    if (event) {
        notify_cq(adapter_, *shared_, number_, QueueFlags::kCqEvent);
    }
}

int Cq::resize(uint32_t entries) {
    Host& host = adapter_.host();
    const uint64_t size = round_up(entries);
    const std::lock_guard guard(poll_mutex);
    const uint64_t ring = host.heap.allocate(size * sizeof(Cqe));
    if (ring == 0) {
        return ENOMEM;
    }
    lock(host, *shared_);
    const uint64_t head = shared_->head.load(std::memory_order_relaxed);
    const uint64_t tail = shared_->tail.load(std::memory_order_relaxed);
    if (tail - head > size || tail - head > entries) {
        shared_->lock.unlock();
        host.heap.release(ring);
        return EINVAL;
    }
    auto* slots = reinterpret_cast<Cqe*>(host.arena() + ring);
    for (uint64_t i = 0; i < size; ++i) {
        new (&slots[i]) Cqe();
    }
    CompletionRing from(slots_, shared_->mask);
    CompletionRing to(slots, size - 1);
    for (uint64_t i = head; i != tail; ++i) {
        to.write(i, from.at(i).wc, from.at(i).position);
        if (from.at(i).consumed()) {
            to.at(i).consume();
        }
    }
    const uint64_t old = shared_->ring;
    shared_->ring = ring;
    shared_->mask = size - 1;
    shared_->capacity = size;
    slots_ = slots;
    mask_ = size - 1;
    shared_->lock.unlock();
    host.wait_for_accesses();
    host.heap.release(old);
    return 0;
}

void Cq::purge(uint32_t qp_number) {
    Host& host = adapter_.host();
    const std::lock_guard guard(poll_mutex);
    lock(host, *shared_);
    const uint64_t head = shared_->head.load(std::memory_order_relaxed);
    const uint64_t tail = shared_->tail.load(std::memory_order_relaxed);
    CompletionRing ring(slots_, shared_->mask);
    for (uint64_t i = head; i != tail; ++i) {
        Cqe& cqe = ring.at(i);
        if (cqe.wc.qp_num == qp_number && !cqe.consumed()) {
            release_entry(cqe);
            cqe.consume();
        }
    }
    shared_->head.store(ring.skip_consumed(head, tail), std::memory_order_release);
    shared_->lock.unlock();
}

}  // namespace softhca
