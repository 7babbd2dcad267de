// SPDX-License-Identifier: BSD-3-Clause
#include "transport/inbound.h"

#include <algorithm>
#include <cstring>

#include "core/qp_state.h"
#include "transport/adapter.h"
#include "transport/qp.h"
#include "transport/responder.h"

namespace softhca {
namespace {

/// Whether no fault acts on data: with a fault, only the sender places.
bool no_faults(const Faults& faults) {
    return faults.segment_bytes.load(std::memory_order_relaxed) == 0 &&
           faults.out_of_order.load(std::memory_order_relaxed) == 0 &&
           faults.drop_qp.load(std::memory_order_relaxed) == 0 &&
           faults.ports_down.load(std::memory_order_relaxed) == 0;
}

/// Frees the entry and its lock, which the caller holds.
void unlock_and_free(ProcessSlot& process, InboundWrite& write) {
    write.sender.store(0, std::memory_order_relaxed);
    write.lock.unlock();
    const auto index = static_cast<uint32_t>(&write - process.inbound);
    process.inbound_used.fetch_and(~(uint64_t{1} << index), std::memory_order_release);
}

/// Allocates an entry and locks it; nullptr if all are in use.
InboundWrite* allocate_inbound(Host& host, ProcessSlot& process) {
    uint64_t used = process.inbound_used.load(std::memory_order_relaxed);
    while (~used != 0) {
        const auto index = static_cast<uint32_t>(__builtin_ctzll(~used));
        if (!process.inbound_used.compare_exchange_weak(used, used | uint64_t{1} << index,
                                                        std::memory_order_acquire)) {
            continue;
        }
        process.inbound[index].lock.lock(host, [] {});
        return &process.inbound[index];
    }
    return nullptr;
}

/// Whether one entry can describe the write: its source is one range of memory, or few inline
/// bytes.
bool fits_inbound(const Qp& qp, const Wqe& wqe) {
    return qp.attributes().type == QpType::rc && wqe.opcode == WrOpcode::rdma_write &&
           wqe.length != 0 && !wqe.backwards &&
           (wqe.is_inline ? wqe.length <= sizeof(InboundWrite::bytes) : wqe.num_sge == 1);
}

/// Source and target of a write, checked as the sender would.
struct CopyPlan {
    const KeyEntry* source = nullptr;  ///< nullptr: the bytes in the entry
    const KeyEntry* target = nullptr;
    QpShared* responder = nullptr;
    IovList from;
    IovList to;
};

bool plan_copy(Host& host, const InboundWrite& write, uint32_t number, CopyPlan* plan) {
    const QpShared* sender = host.qp(number);
    if (sender == nullptr || sender->state.load(std::memory_order_acquire) != QpState::rts ||
        ObjectNumber::process(sender->peer_number) != host.slot()) {
        return false;
    }
    QpShared* mine = host.qp(sender->peer_number);
    if (mine == nullptr || mine->peer_number != number || mine->type != sender->type ||
        !responds(mine->state.load(std::memory_order_acquire)) ||
        (mine->access & access_flag::kRemoteWrite) == 0 ||
        KeyNumber::process(write.rkey) != host.slot()) {
        return false;
    }
    plan->responder = mine;
    uint64_t address;
    plan->target = host.key(write.rkey);
    if (plan->target == nullptr ||
        check_key(*plan->target, write.rkey, mine->pd, sender->peer_number, write.remote_address,
                  write.length, access_flag::kRemoteWrite, &address) != KeyCheck::ok) {
        return false;
    }
    plan->to.add(address, write.length);
    if (write.lkey == 0) {
        plan->from.add(reinterpret_cast<uint64_t>(write.bytes), write.length);
        return true;
    }
    plan->source = host.key(write.lkey);
    if (plan->source == nullptr ||
        KeyNumber::process(write.lkey) != ObjectNumber::process(number) ||
        plan->source->kind != KeyKind::region ||
        check_key(*plan->source, write.lkey, sender->pd, number, write.local_address, write.length,
                  0, &address) != KeyCheck::ok) {
        return false;
    }
    plan->from.add(address, write.length);
    return true;
}

/// Places packets that have arrived. Under the lock of `write`. If a copy fails, the sender repeats
/// it and reports the error.
void place_arrived(Adapter& adapter, InboundWrite& write, const CopyPlan& plan, uint32_t sender,
                   uint64_t now) {
    Host& host = adapter.host();
    const NicParameters& nic = host.header().config.nic;
    if (write.progress >= write.length) {
        return;
    }
    while (write.progress < write.length) {
        const uint64_t rest = write.length - write.progress;
        const uint64_t packet = std::min(rest, kPacketBytes);
        const uint64_t due = arrival_at(write.booking, nic, write.length, write.progress + packet);
        if (now < due && (now = now_ns()) < due) {
            write.due.store(due, std::memory_order_relaxed);
            return;
        }
        const uint64_t arrived = arrived_by(write.booking, nic, write.length, now);
        const uint64_t length = std::max(packet, arrived - std::min(arrived, write.progress));
        const IovList from = plan.from.slice(write.progress, length);
        IovList to = plan.to.slice(write.progress, length);
        CopyResult copied;
        if (plan.source == nullptr) {
            copied = adapter.process_memory().write(host.slot(), plan.target, from, to);
        } else {
            to.split_tail(sizeof(uint64_t));
            copied =
                adapter.process_memory().read(ObjectNumber::process(sender), plan.source, from, to);
        }
        if (copied != CopyResult::ok) {
            return;
        }
        write.progress += length;
    }
    report_established(adapter, *plan.responder, plan.responder->number.load());
    record(host.self().lateness, write.posted_at, write.booking.arrival_end, now_ns());
}

void place_and_unlock(Adapter& adapter, InboundWrite& write, uint64_t now) {
    Host& host = adapter.host();
    const uint32_t sender = write.sender.load(std::memory_order_relaxed);
    if (sender == 0) {
        write.lock.unlock();
        return;
    }
    write.due.store(InboundWrite::kNotDue, std::memory_order_relaxed);
    const uint32_t process = ObjectNumber::process(sender);
    // The copy reads the sender's memory and writes this process's: the guards keep both.
    const AccessGuard sender_guard(host, process);
    const AccessGuard own_guard(host, host.slot());
    if (!host.alive(process)) {
        unlock_and_free(host.self(), write);
        return;
    }
    CopyPlan plan;
    if (no_faults(host.header().faults) && plan_copy(host, write, sender, &plan)) {
        place_arrived(adapter, write, plan, sender, now);
    }
    write.lock.unlock();
}

}  // namespace

InboundLock::InboundLock(Qp& qp, Wqe& wqe) : qp_(qp), wqe_(wqe) {
    InboundHandle& handle = qp.inbound();
    if (handle.write_ == nullptr) {
        return;
    }
    InboundWrite& write = *handle.write_;
    if (!write.lock.try_lock(qp.adapter().host())) {
        busy_ = true;
    } else if (write.sender.load(std::memory_order_relaxed) != qp.number()) {
        write.lock.unlock();  // the receiver has died, and another process uses its slot
        handle.write_ = nullptr;
    } else {
        wqe.progress = write.progress;
    }
}

InboundLock::~InboundLock() {
    InboundWrite* write = qp_.inbound().write_;
    if (write != nullptr && !busy_) {
        write->progress = wqe_.progress;
        if (wqe_.backwards) {
            write->due.store(InboundWrite::kNotDue, std::memory_order_relaxed);
        }
        write->lock.unlock();
    }
}

void InboundLock::hand_over(uint64_t due) {
    InboundHandle& handle = qp_.inbound();
    Host& host = qp_.adapter().host();
    if (handle.write_ == nullptr) {
        if (!fits_inbound(qp_, wqe_) || !no_faults(host.header().faults)) {
            return;
        }
        handle.process_ = ObjectNumber::process(qp_.shared().peer_number);
        handle.write_ = allocate_inbound(host, host.process(handle.process_));
        if (handle.write_ == nullptr) {
            return;
        }
        InboundWrite& write = *handle.write_;
        write.length = wqe_.length;
        write.remote_address = wqe_.remote_address;
        write.rkey = wqe_.rkey;
        write.posted_at = wqe_.posted_at;
        write.booking = wqe_.booking;
        write.lkey = 0;
        if (wqe_.is_inline) {
            std::memcpy(write.bytes, wqe_.inline_data(), wqe_.length);
        } else {
            write.lkey = wqe_.sges()[0].lkey;
            write.local_address = wqe_.sges()[0].addr;
        }
        write.sender.store(qp_.number(), std::memory_order_relaxed);
    }
    handle.write_->due.store(due, std::memory_order_relaxed);
}

void InboundHandle::retire(Host& host, uint32_t qp_number) {
    if (write_ == nullptr) {
        return;
    }
    const AccessGuard guard(host, process_);
    write_->lock.lock(host, [] {});
    if (write_->sender.load(std::memory_order_relaxed) == qp_number) {
        unlock_and_free(host.process(process_), *write_);
    } else {
        write_->lock.unlock();
    }
    write_ = nullptr;
}

void place_inbound_writes(Adapter& adapter, uint64_t now) {
    Host& host = adapter.host();
    ProcessSlot& self = host.self();
    uint64_t used = self.inbound_used.load(std::memory_order_acquire);
    while (used != 0) {
        InboundWrite& write = self.inbound[__builtin_ctzll(used)];
        used &= used - 1;
        if (write.due.load(std::memory_order_relaxed) > now) {
            continue;
        }
        if (write.lock.try_lock(host)) {
            place_and_unlock(adapter, write, now);
        } else if (const uint32_t owner = write.lock.owner();
                   owner != 0 && host.owner_dead(owner)) {
            write.lock.lock(host, [] {});
            place_and_unlock(adapter, write, now);
        }
    }
}

}  // namespace softhca
