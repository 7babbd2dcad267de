// SPDX-License-Identifier: BSD-3-Clause
// RDMA write, RDMA read, and atomic operations.
#include <algorithm>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/paging.h"
#include "softhca/transport/send.h"

namespace softhca {

namespace {

constexpr uint64_t kAtomicBytes = 8;
constexpr uint64_t kNoMemoryNs = 1000;  // until a read asks again for memory for its answer

// Looks up and checks the remote memory. Returns success, or the status of the responder's NAK.
WcStatus resolve_remote_memory(Qp& qp, const Wqe& wqe, const Target& target, uint32_t need,
                               const KeyEntry** key, IovList* list) {
    if (target.bad_request || (target.qp->attributes.access & need) != need)
        return WcStatus::kRemoteInvalidRequest;
    if (wqe.length == 0) return WcStatus::kSuccess;
    Host& host = qp.adapter().host();
    KeyEntry* entry = host.key(wqe.remote.rkey, target.slot);
    uint64_t address;
    if (entry == nullptr ||
        !check_key(*entry, wqe.remote.rkey, target.pd, target.qp_number, wqe.remote.address,
                   wqe.length, need, &address) ||
        !pages_for(qp, *entry))
        return WcStatus::kRemoteAccessError;
    *key = entry;
    list->add(address, wqe.length, entry->relaxed());
    return WcStatus::kSuccess;
}

// fault_remote() for what resolve_remote_memory() has found.
std::optional<Outcome> fault_target(Qp& qp, Wqe& wqe, const Target& target, const KeyEntry* key,
                                    const IovList& remote) {
    if (key == nullptr) return std::nullopt;
    return fault_remote(qp, wqe, target, *key, reinterpret_cast<uint64_t>(remote.data()->iov_base),
                        wqe.length);
}

Outcome lock_and_refuse(Qp& qp, const Wqe& wqe, Target& target, WcStatus status) {
    const ResponderLock lock(qp.adapter().host(), *target.qp);
    return refuse_request(qp, wqe, target, status);
}

// What the requester learns if a copy failed.
Outcome copy_failed(Qp& qp, const Wqe& wqe, Target& target, CopyResult failed, bool locked) {
    switch (failed) {
        case CopyResult::kLocalFault:
            return Outcome::complete(WcStatus::kLocalProtectionError);
        case CopyResult::kGone:
            return peer_unreachable(qp);
        default:
            return locked ? refuse_request(qp, wqe, target, WcStatus::kRemoteAccessError)
                          : lock_and_refuse(qp, wqe, target, WcStatus::kRemoteAccessError);
    }
}

// Holds the responder's lock while it places data, because the operation takes a receive.
Outcome write_with_immediate(Qp& qp, Wqe& wqe, Target& target, const IovList& local, uint64_t now) {
    const ResponderLock lock(qp.adapter().host(), *target.qp);
    const KeyEntry* key = nullptr;
    IovList remote;
    const WcStatus status =
        resolve_remote_memory(qp, wqe, target, access_flag::kRemoteWrite, &key, &remote);
    if (status != WcStatus::kSuccess) return refuse_request(qp, wqe, target, status);
    Outcome outcome = Outcome::no_response();
    const RecvWqe* receive = find_receive(qp, wqe, target, &outcome);
    if (receive == nullptr) return outcome;
    if (const auto fault = fault_target(qp, wqe, target, key, remote)) return *fault;
    CopyResult failed;
    const Outcome placed = place_message(qp, wqe, target, key, local, remote, now, &failed);
    if (failed != CopyResult::kOk) return copy_failed(qp, wqe, target, failed, true);
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
    if (status == WcStatus::kSuccess && wqe.reads() &&
        target.qp->attributes.max_dest_rd_atomic == 0)
        status = WcStatus::kRemoteInvalidRequest;
    if (status != WcStatus::kSuccess) return lock_and_refuse(qp, wqe, target, status);
    if (const auto fault = fault_target(qp, wqe, target, key, remote)) return *fault;
    CopyResult failed;
    const Outcome placed = place_message(qp, wqe, target, key, local, remote, now, &failed);
    if (failed != CopyResult::kOk) return copy_failed(qp, wqe, target, failed, false);
    report_established(qp.adapter(), *target.qp, target.qp_number);
    return placed;
}

}  // namespace

Outcome execute_write(Qp& qp, Wqe& wqe, uint64_t now) {
    return execute_rdma(qp, wqe, 0, access_flag::kRemoteWrite, now);
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
    const bool swaps = wqe.opcode == WrOpcode::kFetchAdd || *before == wqe.atomic.compare_add;
    if (copied == CopyResult::kOk && swaps) {
        uint64_t after =
            wqe.opcode == WrOpcode::kFetchAdd ? *before + wqe.atomic.compare_add : wqe.atomic.swap;
        IovList result;
        result.add(reinterpret_cast<uint64_t>(&after), kAtomicBytes);
        copied = adapter.process_memory().write(target.slot, key, result, remote);
    }
    lock.unlock();
    return copied;
}

// Changes the responder's memory, and keeps the value from before in the work request.
CopyResult answer_atomic(Qp& qp, Wqe& wqe, const Target& target, const KeyEntry* key,
                         const IovList& remote) {
    uint64_t before = 0;
    const CopyResult copied = apply_atomic(qp, wqe, target, key, remote, &before);
    if (copied == CopyResult::kOk) wqe.atomic.swap = before;
    return copied;
}

// Keeps what the responder's memory holds now.
CopyResult answer_read(Qp& qp, const Wqe& wqe, const Target& target, const KeyEntry* key,
                       const IovList& remote, char* bytes) {
    IovList mine;
    mine.add(reinterpret_cast<uint64_t>(bytes), wqe.length);
    const CopyResult copied = qp.adapter().process_memory().read(target.slot, key, remote, mine);
    if (copied != CopyResult::kOk) qp.requester.answers().take_back();
    return copied;
}

uint32_t remote_right(const Wqe& wqe) {
    return wqe.opcode == WrOpcode::kRdmaRead ? access_flag::kRemoteRead
                                             : access_flag::kRemoteAtomic;
}

// Puts what has arrived of an answer into the requester's memory.
Outcome place_answer(Qp& qp, Wqe& wqe, char* bytes, const IovList& local, uint64_t now) {
    Adapter& adapter = qp.adapter();
    Host& host = adapter.host();
    const NicParameters& nic = host.header().config.nic;
    while (wqe.state.progress < wqe.length) {
        const uint64_t length = std::min(wqe.length - wqe.state.progress, kPacketBytes);
        const uint64_t due = wqe.arrival_at(nic, wqe.state.progress + length);
        if (now < due && (now = now_ns()) < due) return Outcome::again(due);
        IovList from;
        from.add(reinterpret_cast<uint64_t>(bytes) + wqe.state.progress, length);
        if (adapter.process_memory().write(host.slot(), nullptr, from,
                                           local.slice(wqe.state.progress, length)) !=
            CopyResult::kOk)
            return Outcome::complete(WcStatus::kLocalProtectionError);
        wqe.state.progress += length;
    }
    if (host.models_time()) {
        // As late as it was at the responder, if it was later there.
        const uint64_t end = wqe.booking.arrival_end;
        record(host.self().lateness, wqe.posted_at, end, std::max(now_ns(), end + wqe.acted_late));
    }
    return Outcome::complete();
}

}  // namespace

bool acts_early(Qp& qp, const Wqe& wqe) {
    if (wqe.opcode != WrOpcode::kRdmaRead) return wqe.reads();
    Host& host = qp.adapter().host();
    const Faults& faults = host.header().faults;
    return host.models_time() && wqe.length != 0 && wqe.length <= ReadAnswers::kMaxBytes &&
           wqe.state.progress == 0 && faults.segment_bytes.load(std::memory_order_relaxed) == 0 &&
           faults.out_of_order.load(std::memory_order_relaxed) == 0;
}

namespace {

Outcome act(Qp& qp, Wqe& wqe, Target& target, uint64_t now) {
    const bool models_time = qp.adapter().host().models_time();
    if (models_time && now < wqe.booking.start && now_ns() < wqe.booking.start)
        return Outcome::again(wqe.booking.start);
    if (!target.find(qp, wqe)) return peer_unreachable(qp);
    const KeyEntry* key = nullptr;
    IovList remote;
    const bool reads = wqe.opcode == WrOpcode::kRdmaRead;
    WcStatus status = resolve_remote_memory(qp, wqe, target, remote_right(wqe), &key, &remote);
    if (status == WcStatus::kSuccess && ((!reads && wqe.remote.address % kAtomicBytes != 0) ||
                                         target.qp->attributes.max_dest_rd_atomic == 0))
        status = WcStatus::kRemoteInvalidRequest;
    if (status != WcStatus::kSuccess) return lock_and_refuse(qp, wqe, target, status);
    if (const auto fault = fault_target(qp, wqe, target, key, remote)) return *fault;
    char* const bytes = reads ? qp.requester.answers().add(wqe.length) : nullptr;
    if (reads && bytes == nullptr) return Outcome::again(now_ns() + kNoMemoryNs);
    const CopyResult copied = reads ? answer_read(qp, wqe, target, key, remote, bytes)
                                    : answer_atomic(qp, wqe, target, key, remote);
    if (copied != CopyResult::kOk) return copy_failed(qp, wqe, target, copied, false);
    report_established(qp.adapter(), *target.qp, target.qp_number);
    wqe.state.acted = true;
    wqe.acted_late = models_time ? now_ns() - wqe.booking.start : 0;
    return Outcome::complete();
}

}  // namespace

Outcome act_at_responder(Qp& qp, Wqe& wqe, uint64_t now) {
    Target target(qp);
    return act(qp, wqe, target, now);
}

Outcome execute_answered(Qp& qp, Wqe& wqe, uint64_t now) {
    if (qp.requester.attributes().max_rd_atomic == 0)
        return Outcome::complete(WcStatus::kLocalQpOperationError);
    if (!wqe.state.acted && !acts_early(qp, wqe))
        return execute_rdma(qp, wqe, access_flag::kLocalWrite, access_flag::kRemoteRead, now);
    const bool reads = wqe.opcode == WrOpcode::kRdmaRead;
    Target target(qp);
    IovList local;
    if (!build_gather_list(qp, wqe, access_flag::kLocalWrite, &local))
        return Outcome::complete(WcStatus::kLocalProtectionError);
    if (!reads && local.length() < kAtomicBytes)
        return Outcome::complete(WcStatus::kLocalLengthError);
    if (!wqe.state.acted) {
        const Outcome outcome = act(qp, wqe, target, now);
        if (!wqe.state.acted) return outcome;
    }
    ReadAnswers& answers = qp.requester.answers();
    char* const answer = reads ? answers.first() : reinterpret_cast<char*>(&wqe.atomic.swap);
    const Outcome outcome = place_answer(qp, wqe, answer, local, now);
    if (reads && outcome.kind == Outcome::Kind::kComplete) answers.pop();
    return outcome;
}

}  // namespace softhca
