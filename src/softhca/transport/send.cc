// SPDX-License-Identifier: BSD-3-Clause
// Sends of the connected transports, and the delivery into a receive that RDMA write with immediate
// uses, too.
#include "softhca/transport/send.h"

#include <algorithm>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/notice.h"
#include "softhca/transport/paging.h"

namespace softhca {

namespace {

bool reliable(const Qp& qp) {
    return is_reliable(qp.attributes().type);
}

// Completes the receive with an error `status`, and puts the responder into the error state. A
// reliable requester learns `nak`. In real time a message is executed when it is posted, and
// completions of earlier ones must not find a failed responder: it fails when it has arrived.
Outcome fail_receive(Qp& qp, const Wqe& wqe, Target& target, const RecvWqe& receive,
                     WcStatus status, WcStatus nak) {
    if (reliable(qp) && under_way(qp, wqe)) return Outcome::again(wqe.arrival_end());
    Host& host = qp.adapter().host();
    Completion wc =
        receive_completion(*target.qp, target.qp_number, receive, visible_now(qp.adapter()));
    wc.status = status;
    fail_responder(qp.adapter(), *target.qp, target.qp_number, 0);
    if (CqShared* cq = host.cq(target.cq)) write_completion(qp.adapter(), *cq, wc);
    return Outcome::complete(reliable(qp) ? nak : WcStatus::kSuccess);
}

// Invalidates a type 2 window of the target, for send with invalidate.
bool invalidate_remote(Host& host, const Target& target, uint32_t key) {
    KeyEntry* entry = host.key(key, target.slot);
    if (entry == nullptr || entry->kind != KeyKind::kWindowType2 || entry->pd != target.pd ||
        entry->bound_qp != target.qp_number)
        return false;
    uint32_t expected = key;
    return entry->key.compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
}

// Fills the receive. For an error at the responder, the responder has failed already.
Outcome fill_receive(Qp& qp, Wqe& wqe, Target& target, const RecvWqe& receive, const IovList& local,
                     uint64_t now) {
    Host& host = qp.adapter().host();
    if (receive.length() < wqe.length) {
        if (!reliable(qp))
            return Outcome::complete();  // UC drops the message; the next one uses the receive
        return fail_receive(qp, wqe, target, receive, WcStatus::kLocalLengthError,
                            WcStatus::kRemoteInvalidRequest);
    }
    IovList remote;
    const auto pages = [&](const Sge& sge) {
        return sge.length == 0 || pages_for(qp, *host.key(sge.lkey));
    };
    if (!build_scatter_list(host, receive.elements(), target.slot, target.qp->claim.pd,
                            target.qp_number, &remote) ||
        !std::ranges::all_of(receive.elements(), pages)) {
        return fail_receive(qp, wqe, target, receive, WcStatus::kLocalProtectionError,
                            WcStatus::kRemoteOperationError);
    }
    if (const auto fault = fault_receive(qp, wqe, target, receive)) return *fault;
    CopyResult failed;
    const IovList space = remote.slice(0, wqe.length);
    const KeyEntry* key = receive.num_sge == 1 ? host.key(receive.sges()[0].lkey) : nullptr;
    const Outcome placed = place_message(qp, wqe, target, key, local, space, now, &failed);
    switch (failed) {
        case CopyResult::kOk:
            break;
        case CopyResult::kLocalFault:
            return Outcome::complete(WcStatus::kLocalProtectionError);
        case CopyResult::kRemoteFault:
            return fail_receive(qp, wqe, target, receive, WcStatus::kLocalProtectionError,
                                WcStatus::kRemoteOperationError);
        case CopyResult::kGone:
            return Outcome::no_response();
    }
    if (placed.kind != Outcome::Kind::kComplete) return placed;
    return complete_receive(qp, wqe, target, receive, now);
}

}  // namespace

Outcome complete_receive(Qp& qp, const Wqe& wqe, Target& target, const RecvWqe& receive,
                         uint64_t now) {
    Adapter& adapter = qp.adapter();
    Completion wc =
        receive_completion(*target.qp, target.qp_number, receive, receive_visible_at(qp, wqe, now));
    wc.byte_len = wqe.length;
    wc.src_qp = qp.number();
    const FabricConfig& config = adapter.host().header().config;
    wc.slid =
        lid_of_place(config, place_of(config, adapter.host().slot(), qp.shared().attributes.link));
    wc.solicited = (wqe.flags & send_flag::kSolicited) != 0;
    wc.imm = wqe.imm;
    if (wqe.opcode == WrOpcode::kSendImm || wqe.opcode == WrOpcode::kRdmaWriteImm)
        wc.flags |= wc_flag::kWithImm;
    if (wqe.opcode == WrOpcode::kRdmaWriteImm) wc.opcode = WcOpcode::kReceiveRdmaWithImm;
    if (wqe.opcode == WrOpcode::kSendInvalidate) {
        if (!invalidate_remote(adapter.host(), target, wqe.imm)) {
            fail_responder(adapter, *target.qp, target.qp_number, Notice::kQpAccessError);
            return Outcome::complete(WcStatus::kRemoteAccessError);
        }
        wc.flags |= wc_flag::kWithInv;
    }
    report_established(adapter, *target.qp, target.qp_number);
    CqShared* cq = adapter.host().cq(target.cq);
    if (cq == nullptr || !write_completion(adapter, *cq, wc)) {
        fail_responder(adapter, *target.qp, target.qp_number, Notice::kQpFatal);
        return Outcome::complete(reliable(qp) ? WcStatus::kRemoteOperationError
                                              : WcStatus::kSuccess);
    }
    return Outcome::complete();
}

Outcome refuse_request(Qp& qp, const Wqe& wqe, Target& target, WcStatus status) {
    if (!reliable(qp)) return drop_message(qp);
    if (!wqe.reads() && under_way(qp, wqe)) return Outcome::again(wqe.arrival_end());
    const uint32_t why =
        status == WcStatus::kRemoteAccessError ? Notice::kQpAccessError : Notice::kQpRequestError;
    fail_responder(qp.adapter(), *target.qp, target.qp_number, why);
    return Outcome::complete(status);
}

const RecvWqe* find_receive(Qp& qp, const Wqe& wqe, Target& target, Outcome* outcome) {
    *outcome = Outcome::no_response();
    if (!responds(target.qp->state.load(std::memory_order_acquire))) return nullptr;
    if (target.bad_request) {
        *outcome = refuse_request(qp, wqe, target, WcStatus::kRemoteInvalidRequest);
        return nullptr;
    }
    const RecvWqe* receive = claim_receive(qp.adapter(), *target.qp, target.srq);
    if (receive != nullptr) return receive;
    if (under_way(qp, wqe))
        *outcome = Outcome::again(wqe.arrival_end());  // a receive may still be posted
    else if (reliable(qp))
        *outcome = Outcome::rnr(rnr_timer_ns(target.qp->attributes.min_rnr_timer));
    else
        *outcome = drop_message(qp);
    return nullptr;
}

Outcome execute_send(Qp& qp, Wqe& wqe, uint64_t now) {
    Target target(qp);
    IovList local;
    if (!build_gather_list(qp, wqe, 0, &local))
        return Outcome::complete(WcStatus::kLocalProtectionError);
    if (!target.find(qp, wqe)) return peer_unreachable(qp);
    const ResponderLock lock(qp.adapter().host(), *target.qp);
    Outcome outcome = Outcome::no_response();
    const RecvWqe* receive = find_receive(qp, wqe, target, &outcome);
    return receive == nullptr ? outcome : fill_receive(qp, wqe, target, *receive, local, now);
}

Outcome drop_message(Qp& qp) {
    qp.adapter().host().self().counters.dropped.fetch_add(1, std::memory_order_relaxed);
    return Outcome::complete();
}

Outcome peer_unreachable(Qp& qp) {
    return reliable(qp) ? Outcome::no_response() : drop_message(qp);
}

}  // namespace softhca
