// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/cq.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "softhca/transport/adapter.h"
#include "softhca/transport/notice.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/srq.h"

namespace softhca {

namespace {

Cqe* slots_of(Host& host, CqShared& cq) {
    char* base = host.arena(ObjectNumber::process(cq.number.load(std::memory_order_relaxed)));
    return reinterpret_cast<Cqe*>(base + cq.ring);
}

// The queue pair whose claim on a receive ends with the completion; 0: none.
uint32_t claimer_of(const Completion& wc) {
    const bool is_receive =
        wc.releases == Releases::kReceiveQueue || wc.releases == Releases::kSharedReceiveQueue;
    return is_receive ? wc.qp_num : 0;
}

// The entry at the tail is committed, and the owner may have polled it: the claim of `cq.claimer`
// ends, and the tail moves on.
void end_entry(Host& host, CqShared& cq, uint64_t tail) {
    if (cq.claimer != 0) {
        if (QpShared* qp = host.qp(cq.claimer)) qp->claim.valid.store(0, std::memory_order_relaxed);
    }
    cq.tail.store(tail + 1, std::memory_order_release);
}

// Under the lock, when armed: the tail behind the newest completion that raises the event.
uint64_t newest_wanted(const CqShared& cq) {
    return cq.armed.load(std::memory_order_relaxed) == CqShared::kArmedNext
               ? cq.tail.load(std::memory_order_relaxed)
               : cq.solicited_tail;
}

// Under the lock: whether a completion that raises the event was written since the queue was armed.
// The owner may have polled it already.
bool event_due(const CqShared& cq) {
    return cq.armed.load(std::memory_order_relaxed) != 0 && newest_wanted(cq) > cq.armed_tail;
}

// Under the lock: disarms the queue, and sets the time of its event to `visible_at`. The time
// first: if this process dies before the rest, the repair raises the event.
void schedule_event(CqShared& cq, uint64_t visible_at) {
    cq.event_at.store(std::max(visible_at, CqShared::kEventNow), std::memory_order_release);
    cq.armed.store(0, std::memory_order_release);
    cq.notified_tail = cq.tail.load(std::memory_order_relaxed);
}

// Under the lock, after a write: whether to notify the owner of an event. If an event is pending
// and the new completion is visible earlier, the event is raised earlier.
bool update_event(CqShared& cq, uint64_t visible_at) {
    if (event_due(cq)) {
        schedule_event(cq, visible_at);
        return true;
    }
    const uint64_t waiting = cq.event_at.load(std::memory_order_relaxed);
    if (waiting > std::max(visible_at, CqShared::kEventNow)) {
        cq.event_at.store(std::max(visible_at, CqShared::kEventNow), std::memory_order_relaxed);
        return true;
    }
    return false;
}

// A producer died inside write_completion(). Ends the entry that it had committed, and notifies the
// owner of the event of that entry or of one before.
void repair(Host& host, CqShared& cq) {
    const uint64_t tail = cq.tail.load(std::memory_order_relaxed);
    CompletionRing ring(slots_of(host, cq), cq.mask);
    if (ring.committed(tail)) end_entry(host, cq, tail);
    const uint64_t end = cq.tail.load(std::memory_order_relaxed);
    cq.solicited_tail = std::min(cq.solicited_tail, end);
    if (end != 0) update_event(cq, ring.at(end - 1).wc.visible_at);
    if (cq.event_at.load(std::memory_order_relaxed) != 0)
        raise_cq_notice(host, cq, cq.number.load(std::memory_order_relaxed), Notice::kCqEvent);
}

void lock(Host& host, CqShared& cq) {
    cq.lock.lock(host, [&] { repair(host, cq); });
}

// Slots of a ring that holds `entries`.
uint64_t slots_for(uint64_t entries) {
    return std::max<uint64_t>(std::bit_ceil(entries), 16);
}

}  // namespace

bool write_completion(Adapter& adapter, CqShared& cq, const Completion& wc, uint64_t position) {
    Host& host = adapter.host();
    const uint32_t number = cq.number.load(std::memory_order_acquire);
    lock(host, cq);
    const uint64_t tail = cq.tail.load(std::memory_order_relaxed);
    if (tail - cq.head_seen >= cq.capacity) cq.head_seen = cq.head.load(std::memory_order_acquire);
    const bool full = tail - cq.head_seen >= cq.capacity;
    if (full || cq.failed.load(std::memory_order_relaxed) != 0) {
        const bool first = cq.failed.exchange(1, std::memory_order_relaxed) == 0;
        cq.lock.unlock();
        if (first) notify_cq(adapter, cq, number, Notice::kCqError);
        return false;
    }
    CompletionRing ring(slots_of(host, cq), cq.mask);
    cq.claimer = claimer_of(wc);
    if (wc.solicited || wc.status != WcStatus::kSuccess) cq.solicited_tail = tail + 1;
    ring.write(tail, wc, position);
    end_entry(host, cq, tail);
    ring.expect(tail + 1);
    if (update_event(cq, wc.visible_at)) {
        // Under the lock, so that the next producer repairs a death here.
        notify_cq(adapter, cq, number, Notice::kCqEvent);
    }
    cq.lock.unlock();
    host.self().counters.completions.fetch_add(1, std::memory_order_relaxed);
    note_seen(ObjectNumber::process(number), wc.visible_at);
    return true;
}

void repair_completions(Host& host, CqShared& cq) {
    lock(host, cq);
    cq.lock.unlock();
}

Cq* Cq::create(Adapter& adapter, uint32_t entries, uint64_t memory) {
    Host& host = adapter.host();
    const auto index = host.cq_indices.allocate();
    if (!index) return nullptr;
    const uint64_t size = slots_for(entries);
    const uint64_t ring = host.allocate_queue(size * sizeof(Cqe));
    if (ring == 0) {
        host.cq_indices.release(*index);
        return nullptr;
    }
    CqShared& shared = host.tables().cqs[*index];
    const uint32_t number = adapter.next_number(*index);
    Cq* cq = new Cq(adapter, &shared, number);
    cq->slots_ = reinterpret_cast<Cqe*>(host.arena() + ring);
    cq->mask_ = size - 1;
    for (uint64_t i = 0; i < size; ++i) new (&cq->slots_[i]) Cqe();
    cq->move_head(0);
    shared.ring = ring;
    shared.mask = size - 1;
    shared.capacity = entries;
    shared.armed.store(0, std::memory_order_relaxed);
    shared.failed.store(0, std::memory_order_relaxed);
    shared.notices.store(0, std::memory_order_relaxed);
    shared.notified_tail = 0;
    shared.armed_tail = 0;
    shared.solicited_tail = 0;
    shared.event_at.store(0, std::memory_order_relaxed);
    shared.head_seen = 0;
    shared.tail.store(0, std::memory_order_relaxed);
    shared.number.store(number, std::memory_order_release);
    adapter.cqs.put(*index, cq);
    cq->memory_ = memory;
    add_queues(host, {0, entries, 0, memory});
    host.self().objects.completion_queues.fetch_add(1, std::memory_order_relaxed);
    return cq;
}

Cq::~Cq() {
    Host& host = adapter_.host();
    const uint32_t index = ObjectNumber::index(number_);
    adapter_.cqs.drop(index);
    shared_->number.store(0, std::memory_order_seq_cst);
    host.wait_for_accesses();
    remove_queues(host, {0, shared_->capacity, 0, memory_});
    host.self().objects.completion_queues.fetch_sub(1, std::memory_order_relaxed);
    host.heap.release(shared_->ring);
    host.cq_indices.release(index);
}

int Cq::poll_empty() {
    adapter_.engine().progress();
    return shared_->failed.load(std::memory_order_relaxed) != 0 ? -1 : 0;
}

bool Cq::has_visible() {
    const uint64_t head = shared_->head.load(std::memory_order_relaxed);
    return CompletionRing(slots_, mask_).next_visible(head, now_ns()).has_value();
}

std::optional<uint64_t> Cq::next_visible(uint64_t head) {
    CompletionRing ring(slots_, mask_);
    if (!adapter_.delays_completions())
        return ring.committed(head) ? std::optional(head) : std::nullopt;
    return ring.next_visible(head, now_ns());
}

void Cq::move_head(uint64_t head) {
    shared_->head.store(head, std::memory_order_release);
    next_.store(&slots_[head & mask_].ready, std::memory_order_relaxed);
}

// Frees the queue entry of a completion, when a real driver frees it, too. False if the entry was
// of a shared receive queue that is destroyed.
bool Cq::release_entry(const Cqe& cqe) {
    switch (cqe.wc.releases) {
        case Releases::kSendQueue:
            if (Qp* qp = adapter_.qps.get(cqe.wc.owner))
                qp->requester.queue().release(cqe.position);
            break;
        case Releases::kReceiveQueue:
            if (Qp* qp = adapter_.qps.get(cqe.wc.owner))
                qp->shared().ring.release_slot(adapter_.host().arena(), cqe.wc.slot);
            break;
        case Releases::kSharedReceiveQueue:
            if (Srq* srq = adapter_.srqs.get(cqe.wc.owner)) {
                srq->release(cqe.wc.slot);
                break;
            }
            return false;
        case Releases::kNothing:
            break;
    }
    return true;
}

// Whether a stale completion fails the poll, as in drivers that look up a completion's queue and
// leave its completions behind when they destroy it.
bool Cq::stale_fails() const {
    return adapter_.host().header().faults.stale_cq.load(std::memory_order_relaxed) != 0;
}

void Cq::arm(bool solicited_only) {
    Host& host = adapter_.host();
    lock(host, *shared_);
    if (!solicited_only || shared_->armed.load(std::memory_order_relaxed) == 0) {
        shared_->armed.store(solicited_only ? CqShared::kArmedSolicited : CqShared::kArmedNext,
                             std::memory_order_relaxed);
    }
    shared_->armed_tail = shared_->tail.load(std::memory_order_relaxed);
    const uint64_t first = first_event_time();
    if (first != kNothing) {
        schedule_event(*shared_, first);
        notify_cq(adapter_, *shared_, number_, Notice::kCqEvent);
    }
    shared_->lock.unlock();
}

// Under the lock, when armed: the earliest `visible_at` of the completions that need an event,
// because they are newer than the last event or not visible yet. kNothing if there is none.
uint64_t Cq::first_event_time() {
    const bool misses = adapter_.host().personality().ordering.missed_events != 0;
    if (!adapter_.delays_completions()) {
        if (misses) return kNothing;
        const uint64_t known =
            std::max(shared_->notified_tail, shared_->head.load(std::memory_order_relaxed));
        return newest_wanted(*shared_) > known ? 0 : kNothing;
    }
    const bool any = shared_->armed.load(std::memory_order_relaxed) == CqShared::kArmedNext;
    const uint64_t now = now_ns();
    const uint64_t tail = shared_->tail.load(std::memory_order_relaxed);
    uint64_t first = kNothing;
    CompletionRing ring(slots_of(adapter_.host(), *shared_), shared_->mask);
    for (uint64_t i = shared_->head.load(std::memory_order_acquire); i != tail; ++i) {
        const Completion& wc = ring.at(i).wc;
        const bool wanted = any || wc.solicited || wc.status != WcStatus::kSuccess;
        const bool is_new = !misses && i >= shared_->notified_tail;
        if (wanted && (is_new || wc.visible_at > now)) first = std::min(first, wc.visible_at);
    }
    return first;
}

int Cq::resize(uint32_t asked, uint32_t entries, uint64_t memory) {
    Host& host = adapter_.host();
    const uint64_t size = slots_for(entries);
    const std::lock_guard guard(poll_mutex);
    const uint64_t ring = host.allocate_queue(size * sizeof(Cqe));
    if (ring == 0) return ENOMEM;
    lock(host, *shared_);
    const uint64_t head = shared_->head.load(std::memory_order_relaxed);
    const uint64_t tail = shared_->tail.load(std::memory_order_relaxed);
    if (tail - head > asked) {
        shared_->lock.unlock();
        host.heap.release(ring);
        return EINVAL;
    }
    auto* slots = reinterpret_cast<Cqe*>(host.arena() + ring);
    for (uint64_t i = 0; i < size; ++i) new (&slots[i]) Cqe();
    CompletionRing from(slots_, shared_->mask);
    CompletionRing to(slots, size - 1);
    for (uint64_t i = head; i != tail; ++i) to.write(i, from.at(i).wc, from.at(i).position);
    const uint64_t old = shared_->ring;
    const uint64_t old_entries = std::exchange(shared_->capacity, entries);
    shared_->ring = ring;
    shared_->mask = size - 1;
    slots_ = slots;
    mask_ = size - 1;
    move_head(head);
    shared_->lock.unlock();
    host.wait_for_accesses();
    host.heap.release(old);
    // A driver has both buffers for a moment.
    add_queues(host, {0, 0, 0, memory});
    remove_queues(host, {0, old_entries, 0, std::exchange(memory_, memory)});
    add_queues(host, {0, entries, 0, 0});
    return 0;
}

void Cq::disown(uint32_t qp_number) {
    const std::lock_guard guard(poll_mutex);
    lock(adapter_.host(), *shared_);
    CompletionRing ring(slots_, mask_);
    const uint64_t tail = shared_->tail.load(std::memory_order_relaxed);
    for (uint64_t i = shared_->head.load(std::memory_order_relaxed); i != tail; ++i) {
        Cqe& cqe = ring.at(i);
        if (cqe.wc.qp_num != qp_number) continue;
        (void)release_entry(cqe);
        cqe.wc.releases = Releases::kNothing;
    }
    shared_->lock.unlock();
}

void Cq::purge(uint32_t qp_number) {
    Host& host = adapter_.host();
    const std::lock_guard guard(poll_mutex);
    lock(host, *shared_);
    uint64_t head = shared_->head.load(std::memory_order_relaxed);
    const uint64_t tail = shared_->tail.load(std::memory_order_relaxed);
    CompletionRing ring(slots_, mask_);
    for (uint64_t i = head; i != tail; ++i) {
        if (ring.at(i).wc.qp_num == qp_number) {
            (void)release_entry(ring.at(i));
            ring.close_gap(head, i);
            ++head;
        }
    }
    move_head(head);
    shared_->lock.unlock();
}

}  // namespace softhca
