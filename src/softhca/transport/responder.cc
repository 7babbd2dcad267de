// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/responder.h"

#include <algorithm>

#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/notice.h"

namespace softhca {

SrqShared* srq_of_claim(Host& host, const QpShared& qp) {
    SrqShared* srq = qp.claim.srq != 0 ? host.srq(qp.claim.srq) : nullptr;
    return srq != nullptr && srq->life == qp.claim.life ? srq : nullptr;
}

CqShared* cq_of_claim(Host& host, const QpShared& qp) {
    const SrqShared* srq = srq_of_claim(host, qp);
    return host.cq(srq != nullptr && srq->cq != 0 ? srq->cq : qp.recv_cq);
}

uint32_t claim_owner(const QpShared& qp) {
    const uint32_t srq = qp.claim.srq;
    return ObjectNumber::process(srq != 0 ? srq : qp.number.load(std::memory_order_relaxed));
}

void flush_claim(Adapter& adapter, QpShared& qp, uint32_t qp_number) {
    Host& host = adapter.host();
    const AccessGuard guard(host, claim_owner(qp));
    const RecvWqe* receive = host.alive(claim_owner(qp)) ? claimed_receive(host, qp) : nullptr;
    CqShared* cq = receive == nullptr ? nullptr : cq_of_claim(host, qp);
    if (cq != nullptr) {
        Completion wc = receive_completion(qp, qp_number, *receive, visible_now(adapter));
        wc.status = WcStatus::kFlushed;
        write_completion(adapter, *cq, wc);
    }
    qp.claim.valid.store(0, std::memory_order_release);
}

namespace {

// The previous holder of the lock died. If it had not moved the head, its claim is void.
void repair_srq(Host& host, SrqShared& srq) {
    QpShared* qp = host.qp(srq.claimer);
    if (qp != nullptr && qp->claim.valid.load(std::memory_order_acquire) != 0 &&
        qp->claim.srq == srq.number.load(std::memory_order_relaxed) &&
        qp->claim.index == srq.ring.head.load(std::memory_order_relaxed))
        qp->claim.valid.store(0, std::memory_order_release);
}

// The previous holder of the lock died. First repairs the queues it was changing, which shows
// whether it took the receive, and whether it committed a completion, which ends the claim. A
// valid claim on the queue pair's own ring is whole: the head moves. Notifies the owner of an
// error state again, in case the dead holder did not.
void repair_qp(Host& host, QpShared& qp) {
    const AccessGuard guard(host, claim_owner(qp));
    if (SrqShared* srq = srq_of_claim(host, qp)) {
        lock_srq(host, *srq);
        srq->lock.unlock();
    }
    if (CqShared* cq = cq_of_claim(host, qp)) repair_completions(host, *cq);
    const Claim& claim = qp.claim;
    if (claim.valid.load(std::memory_order_acquire) != 0 && claim.srq == 0 &&
        claim.index == qp.ring.head.load(std::memory_order_relaxed))
        qp.ring.head.store(claim.index + 1, std::memory_order_release);
    if (qp.state.load(std::memory_order_relaxed) == QpState::kErr)
        raise_qp_notice(host, qp, qp.number.load(std::memory_order_relaxed), Notice::kQpError);
}

void set_claim(QpShared& qp, uint32_t srq, uint32_t pd, uint64_t index, uint32_t slot) {
    qp.claim.srq = srq;
    qp.claim.pd = pd;
    qp.claim.index = index;
    qp.claim.slot = slot;
    qp.claim.valid.store(1, std::memory_order_release);
}

// Under the SRQ's lock: whether a limit event is due. Disarms the limit if so.
bool limit_reached(SrqShared& srq) {
    const uint32_t limit = srq.limit.load(std::memory_order_relaxed);
    if (limit == 0 || srq.ring.posted() >= limit) return false;
    srq.limit.store(0, std::memory_order_relaxed);
    return true;
}

// Claims a receive of the shared queue that the caller has found by `number`. Its owner may have
// begun to destroy it, and cleared the number in it.
bool claim_from_srq(Adapter& adapter, QpShared& qp, SrqShared& srq, uint32_t number) {
    Host& host = adapter.host();
    lock_srq(host, srq);
    const uint64_t head = srq.ring.head.load(std::memory_order_relaxed);
    if (srq.ring.empty()) {
        srq.lock.unlock();
        return false;
    }
    qp.claim.life = srq.life;
    srq.claimer = qp.number.load(std::memory_order_relaxed);
    char* arena = host.arena(ObjectNumber::process(number));
    set_claim(qp, number, srq.pd, head, srq.ring.order(arena, head));
    srq.ring.head.store(head + 1, std::memory_order_release);
    qp.uses_srq = 1;
    const bool limit = limit_reached(srq);
    srq.ring.expect(arena, head + 1);
    srq.lock.unlock();
    if (limit) raise_srq_notice(adapter.host(), srq, number, Notice::kSrqLimit);
    return true;
}

}  // namespace

ResponderLock::ResponderLock(Host& host, QpShared& qp) : qp_(qp) {
    qp.lock.lock(host, [&] { repair_qp(host, qp); });
}

void lock_srq(Host& host, SrqShared& srq) {
    srq.lock.lock(host, [&] { repair_srq(host, srq); });
}

RecvWqe* claimed_receive(Host& host, QpShared& qp) {
    if (qp.claim.valid.load(std::memory_order_acquire) == 0) return nullptr;
    RecvRing* ring = &qp.ring;
    uint32_t owner = qp.number.load(std::memory_order_relaxed);
    if (qp.claim.srq != 0) {
        SrqShared* srq = srq_of_claim(host, qp);
        if (srq == nullptr) return nullptr;
        ring = &srq->ring;
        owner = qp.claim.srq;
    }
    char* arena = host.arena(ObjectNumber::process(owner));
    return arena == nullptr ? nullptr : &ring->slot(arena, qp.claim.slot);
}

void claim_ahead(Adapter& adapter, QpShared& qp) {
    SrqShared* srq = qp.srq != 0 ? adapter.host().srq(qp.srq) : nullptr;
    if (srq != nullptr && qp.uses_srq != 0 && qp.claim.valid.load(std::memory_order_acquire) == 0)
        (void)claim_from_srq(adapter, qp, *srq, qp.srq);
}

bool claim_own_receive(Host& host, QpShared& qp) {
    if (qp.ring.empty()) return false;
    const uint64_t head = qp.ring.head.load(std::memory_order_relaxed);
    char* arena = host.arena(ObjectNumber::process(qp.number.load(std::memory_order_relaxed)));
    set_claim(qp, 0, qp.pd, head, qp.ring.order(arena, head));
    qp.ring.head.store(head + 1, std::memory_order_release);
    qp.ring.expect(arena, head + 1);
    return true;
}

RecvWqe* claim_receive(Adapter& adapter, QpShared& qp, uint32_t srq) {
    Host& host = adapter.host();
    if (qp.claim.valid.load(std::memory_order_acquire) != 0) {
        RecvWqe* const receive = qp.claim.srq == srq ? claimed_receive(host, qp) : nullptr;
        if (receive != nullptr) return receive;
        // The claim was for a message to another queue, and its sender has abandoned the message;
        // or the queue was destroyed while the sender waited, and another one has its number.
        flush_claim(adapter, qp, qp.number.load(std::memory_order_relaxed));
    }
    if (take_rnr(host.header().faults)) return nullptr;
    SrqShared* shared = srq != 0 ? host.srq(srq) : nullptr;
    if (srq != 0 && shared == nullptr) return nullptr;
    const bool claimed =
        shared != nullptr ? claim_from_srq(adapter, qp, *shared, srq) : claim_own_receive(host, qp);
    return claimed ? claimed_receive(host, qp) : nullptr;
}

bool build_scatter_list(Host& host, std::span<const Sge> receive, uint32_t slot, uint32_t pd,
                        uint32_t qp, IovList* list) {
    if (receive.size() > kMaxSge) return false;
    for (const Sge& sge : receive) {
        if (sge.length == 0) continue;
        KeyEntry* entry = host.key(sge.lkey, slot);
        uint64_t address;
        if (entry == nullptr || !check_local_key(*entry, sge.lkey, pd, qp, sge.addr, sge.length,
                                                 access_flag::kLocalWrite, &address))
            return false;
        list->add(address, sge.length, entry->relaxed());
    }
    return true;
}

Completion receive_completion(QpShared& qp, uint32_t qp_number, const RecvWqe& receive,
                              uint64_t visible_at) {
    Completion wc;
    wc.wr_id = receive.wr_id;
    wc.opcode = WcOpcode::kReceive;
    wc.qp_num = qp_number;
    const uint32_t srq = qp.claim.srq;
    wc.releases = srq != 0 ? Releases::kSharedReceiveQueue : Releases::kReceiveQueue;
    wc.owner = srq != 0 ? srq : qp_number;
    wc.slot = receive.slot;
    wc.visible_at = visible_at == 0 ? 0 : qp.last_visible = std::max(qp.last_visible, visible_at);
    return wc;
}

void fail_responder(Adapter& adapter, QpShared& qp, uint32_t qp_number, uint32_t why) {
    if (!responds(qp.state.load(std::memory_order_relaxed))) return;  // was reset or failed before
    qp.state.store(QpState::kErr, std::memory_order_release);
    raise_qp_notice(adapter.host(), qp, qp_number, Notice::kQpError | why);
}

void report_established(Adapter& adapter, QpShared& qp, uint32_t qp_number) {
    if (qp.established.load(std::memory_order_relaxed) == 0 &&
        qp.state.load(std::memory_order_relaxed) == QpState::kRtr &&
        qp.established.exchange(1, std::memory_order_relaxed) == 0)
        raise_qp_notice(adapter.host(), qp, qp_number, Notice::kQpCommEst);
}

}  // namespace softhca
