// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/receive_queue.h"

#include <utility>

#include "softhca/transport/adapter.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/responder.h"
#include "softhca/transport/srq.h"

namespace softhca {

int ReceiveQueue::post(uint64_t wr_id, const Sge* sges, uint32_t count) {
    const std::lock_guard lock(post_mutex_);
    Host& host = qp_.adapter().host();
    const Personality::Errors& errors = host.personality().errors;
    return post_to_ring(host, qp_.shared().ring, wr_id, sges, count,
                        {errors.recv_full, errors.recv_sge});
}

void ReceiveQueue::end() {
    Adapter& adapter = qp_.adapter();
    Host& host = adapter.host();
    const Personality& personality = host.personality();
    const bool from_shared = qp_.attributes().srq != nullptr;
    if (from_shared && !ends_ && personality.ordering.receive_ahead != 0) {
        const AccessGuard guard(host, host.slot());  // before the lock, as senders do
        const ResponderLock lock(host, qp_.shared());
        if (qp_.state() == QpState::kErr) claim_ahead(adapter, qp_.shared());
    }
    const bool ended = std::exchange(ends_, true);
    if (!from_shared || personality.times.flush_delay == 0) return flush();
    if (ended) return;
    flush_at_ = now_ns() + qp_.flush_delay();
    adapter.engine().schedule_qp(qp_.number(), flush_at_);
}

void ReceiveQueue::run_scheduled(uint64_t now) {
    if (flush_at_ == 0 || now < flush_at_) return;
    flush_at_ = 0;
    flush();
}

void ReceiveQueue::flush() {
    Adapter& adapter = qp_.adapter();
    Host& host = adapter.host();
    QpShared& shared = qp_.shared();
    {
        const AccessGuard guard(host, host.slot());  // before the lock, as senders do
        const ResponderLock lock(host, shared);
        if (qp_.state() != QpState::kErr) return;
        if (shared.claim.valid.load(std::memory_order_acquire) != 0)
            flush_claim(adapter, shared, qp_.number());
        while (claim_own_receive(host, shared)) flush_claim(adapter, shared, qp_.number());
    }
    if (qp_.attributes().srq != nullptr && !last_event_ &&
        host.personality().ordering.last_receive_event != 0) {
        last_event_ = true;
        adapter.sink().qp_event(qp_, QpEvent::kLastReceive);
    }
}

// Under the queue pair's lock: releases a claimed receive of a shared queue, which completes
// nowhere. Some devices never release it.
void ReceiveQueue::release_claim() {
    Host& host = qp_.adapter().host();
    Claim& claim = qp_.shared().claim;
    if (host.personality().ordering.receive_ahead != 0) {
        if (!ends_) claim_ahead(qp_.adapter(), qp_.shared());
        claim.valid.store(0, std::memory_order_release);
        return;
    }
    if (claim.valid.exchange(0, std::memory_order_acq_rel) == 0 || claim.srq == 0) return;
    const uint32_t owner = ObjectNumber::process(claim.srq);
    const AccessGuard guard(host, owner);
    SrqShared* srq = host.alive(owner) ? srq_of_claim(host, qp_.shared()) : nullptr;
    if (srq != nullptr) {
        lock_srq(host, *srq);
        srq->ring.release_slot(host.arena(owner), claim.slot);
        srq->lock.unlock();
    }
}

void ReceiveQueue::clear() {
    Host& host = qp_.adapter().host();
    QpShared& shared = qp_.shared();
    {
        const AccessGuard guard(host, host.slot());  // before the lock, as senders do
        const ResponderLock lock(host, shared);
        release_claim();
        shared.ring.head.store(shared.ring.tail.load(std::memory_order_relaxed),
                               std::memory_order_release);
        shared.established.store(0, std::memory_order_relaxed);
        shared.uses_srq = 0;
    }
    ends_ = false;
    flush_at_ = 0;
    last_event_ = false;
}

}  // namespace softhca
