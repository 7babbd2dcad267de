// SPDX-License-Identifier: BSD-3-Clause
// RDMA write, RDMA read, and atomic operations.
#include <cstring>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/send.h"

namespace softhca {

namespace {

constexpr uint64_t kAtomicBytes = 8;

// Looks up and checks the remote memory. Returns success, or the status of the responder's NAK.
WcStatus resolve_remote_memory(Qp& qp, const Wqe& wqe, const Target& target, uint32_t need,
                               const KeyEntry** key, IovList* list) {
    if (target.bad_request || (target.qp->access & need) != need)
        return WcStatus::kRemoteInvalidRequest;
    if (wqe.length == 0) return WcStatus::kSuccess;
    Host& host = qp.adapter().host();
    KeyEntry* entry = KeyNumber::process(wqe.rkey) == target.slot ? host.key(wqe.rkey) : nullptr;
    uint64_t address;
    if (entry == nullptr ||
        check_key(*entry, wqe.rkey, target.pd, target.qp_number, wqe.remote_address, wqe.length,
                  need, &address) != KeyCheck::kOk)
        return WcStatus::kRemoteAccessError;
    *key = entry;
    list->add(address, wqe.length);
    return WcStatus::kSuccess;
}

Outcome lock_and_refuse(Qp& qp, Target& target, WcStatus status) {
    const ResponderLock lock(qp.adapter().host(), *target.qp);
    return refuse_request(qp, target, status);
}

// What the requester learns if a copy failed.
Outcome copy_failed(Qp& qp, Target& target, CopyResult failed, bool locked) {
    switch (failed) {
        case CopyResult::kLocalFault:
            return Outcome::complete(WcStatus::kLocalProtectionError);
        case CopyResult::kGone:
            return peer_unreachable(qp);
        default:
            return locked ? refuse_request(qp, target, WcStatus::kRemoteAccessError)
                          : lock_and_refuse(qp, target, WcStatus::kRemoteAccessError);
    }
}

// Holds the responder's lock while it places data, because the operation takes a receive.
Outcome write_with_immediate(Qp& qp, Wqe& wqe, Target& target, const IovList& local, uint64_t now) {
    const ResponderLock lock(qp.adapter().host(), *target.qp);
    const KeyEntry* key = nullptr;
    IovList remote;
    const WcStatus status =
        resolve_remote_memory(qp, wqe, target, access_flag::kRemoteWrite, &key, &remote);
    if (status != WcStatus::kSuccess) return refuse_request(qp, target, status);
    Outcome outcome = Outcome::no_response();
    const RecvWqe* receive = find_receive(qp, wqe, target, &outcome);
    if (receive == nullptr) return outcome;
    CopyResult failed;
    const Outcome placed =
        place_message(qp, wqe, target, key, local, remote, Placement::kByPacket, now, &failed);
    if (failed != CopyResult::kOk) return copy_failed(qp, target, failed, true);
    return placed.kind == Outcome::Kind::kComplete
               ? complete_receive(qp, wqe, target, *receive, now)
               : placed;
}

// RDMA write and RDMA read. Except for a write with immediate, only memory of the responder
// changes.
Outcome execute_rdma(Qp& qp, Wqe& wqe, uint32_t local_right, uint32_t remote_right, uint64_t now) {
    Target target(qp);
    IovList local;
    if (!build_gather_list(qp, wqe, local_right, &local))
        return Outcome::complete(WcStatus::kLocalProtectionError);
    if (!target.find(qp, wqe)) return peer_unreachable(qp);
    if (wqe.opcode == WrOpcode::kRdmaWriteImm)
        return write_with_immediate(qp, wqe, target, local, now);
    const KeyEntry* key = nullptr;
    IovList remote;
    WcStatus status = resolve_remote_memory(qp, wqe, target, remote_right, &key, &remote);
    if (status == WcStatus::kSuccess && wqe.reads() && target.qp->max_dest_rd_atomic == 0)
        status = WcStatus::kRemoteInvalidRequest;
    if (status != WcStatus::kSuccess) return lock_and_refuse(qp, target, status);
    CopyResult failed;
    const Outcome placed =
        place_message(qp, wqe, target, key, local, remote, Placement::kByPacket, now, &failed);
    if (failed != CopyResult::kOk) return copy_failed(qp, target, failed, false);
    report_established(qp.adapter(), *target.qp, target.qp_number);
    return placed;
}

}  // namespace

bool check_write(Qp& qp, Wqe& wqe, IovList* local, const KeyEntry** key) {
    Target target(qp);
    IovList remote;
    return build_gather_list(qp, wqe, 0, local) && target.find(qp, wqe) &&
           resolve_remote_memory(qp, wqe, target, access_flag::kRemoteWrite, key, &remote) ==
               WcStatus::kSuccess;
}

Outcome execute_write(Qp& qp, Wqe& wqe, uint64_t now) {
    constexpr uint64_t kLockRetryNs = 300;
    if (!qp.adapter().host().models_time())
        return execute_rdma(qp, wqe, 0, access_flag::kRemoteWrite, now);
    InboundLock lock(qp, wqe);
    if (lock.busy()) return Outcome::again(now_ns() + kLockRetryNs);
    if (wqe.length != 0 && wqe.progress == wqe.length) {
        // The receiver has placed all, and may have deregistered the memory since.
        return Outcome::complete();
    }
    const Outcome outcome = execute_rdma(qp, wqe, 0, access_flag::kRemoteWrite, now);
    const bool waits = outcome.kind == Outcome::Kind::kAgain && outcome.time != 0;
    if (waits && !lock.wait_until(outcome.time))
        qp.inbound().push(qp, wqe, qp.head_position(), outcome.time);
    return outcome;
}

Outcome execute_read(Qp& qp, Wqe& wqe, uint64_t now) {
    if (qp.max_rd_atomic() == 0) return Outcome::complete(WcStatus::kLocalQpOperationError);
    return execute_rdma(qp, wqe, access_flag::kLocalWrite, access_flag::kRemoteRead, now);
}

namespace {

// Reads, computes and writes under a lock of the memory's process: atomic among the operations of
// this device, as IBV_ATOMIC_HCA promises.
CopyResult apply_atomic(Qp& qp, const Wqe& wqe, const Target& target, const KeyEntry* key,
                        const IovList& remote, uint64_t* before) {
    Adapter& adapter = qp.adapter();
    Host& host = adapter.host();
    IovList mine;
    mine.add(reinterpret_cast<uint64_t>(before), kAtomicBytes);
    RobustLock& lock = host.process(target.slot).atomics;
    lock.lock(host, [] {});
    CopyResult copied = adapter.process_memory().read(target.slot, key, remote, mine);
    const bool swaps = wqe.opcode == WrOpcode::kFetchAdd || *before == wqe.compare_add;
    if (copied == CopyResult::kOk && swaps) {
        uint64_t after = wqe.opcode == WrOpcode::kFetchAdd ? *before + wqe.compare_add : wqe.swap;
        IovList result;
        result.add(reinterpret_cast<uint64_t>(&after), kAtomicBytes);
        copied = adapter.process_memory().write(target.slot, key, result, remote);
    }
    lock.unlock();
    return copied;
}

// Changes the responder's memory when the request has arrived there, and keeps the value from
// before in the work request, whose progress is kAtomicBytes then.
Outcome act_at_responder(Qp& qp, Wqe& wqe, Target& target, uint64_t now) {
    if (qp.adapter().host().models_time() && now < wqe.booking.start &&
        now_ns() < wqe.booking.start)
        return Outcome::again(wqe.booking.start);
    if (!target.find(qp, wqe)) return peer_unreachable(qp);
    const KeyEntry* key = nullptr;
    IovList remote;
    WcStatus status =
        resolve_remote_memory(qp, wqe, target, access_flag::kRemoteAtomic, &key, &remote);
    if (status == WcStatus::kSuccess &&
        (wqe.remote_address % kAtomicBytes != 0 || target.qp->max_dest_rd_atomic == 0))
        status = WcStatus::kRemoteInvalidRequest;
    if (status != WcStatus::kSuccess) return lock_and_refuse(qp, target, status);
    uint64_t before = 0;
    const CopyResult copied = apply_atomic(qp, wqe, target, key, remote, &before);
    if (copied != CopyResult::kOk) return copy_failed(qp, target, copied, false);
    report_established(qp.adapter(), *target.qp, target.qp_number);
    wqe.swap = before;
    wqe.progress = kAtomicBytes;
    return Outcome::complete();
}

}  // namespace

Outcome execute_atomic(Qp& qp, Wqe& wqe, uint64_t now) {
    Adapter& adapter = qp.adapter();
    if (qp.max_rd_atomic() == 0) return Outcome::complete(WcStatus::kLocalQpOperationError);
    Target target(qp);
    IovList local;
    if (!build_gather_list(qp, wqe, access_flag::kLocalWrite, &local))
        return Outcome::complete(WcStatus::kLocalProtectionError);
    if (local.length() < kAtomicBytes) return Outcome::complete(WcStatus::kLocalLengthError);
    if (wqe.progress == 0) {
        const Outcome outcome = act_at_responder(qp, wqe, target, now);
        if (wqe.progress == 0) return outcome;
    }
    const bool models_time = adapter.host().models_time();
    if (models_time && now_ns() < wqe.booking.arrival_end)
        return Outcome::again(wqe.booking.arrival_end);
    IovList result;
    result.add(reinterpret_cast<uint64_t>(&wqe.swap), kAtomicBytes);
    const CopyResult returned = adapter.process_memory().write(
        adapter.host().slot(), nullptr, result, local.slice(0, kAtomicBytes));
    if (models_time) {
        record(adapter.host().self().lateness, wqe.posted_at, wqe.booking.arrival_end, now_ns());
    }
    return Outcome::complete(returned == CopyResult::kOk ? WcStatus::kSuccess
                                                         : WcStatus::kLocalProtectionError);
}

}  // namespace softhca
