// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/inbound.h"

#include <algorithm>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/execute.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/responder.h"

namespace softhca {

bool receiver_may_place(const Faults& faults) {
    return faults.segment_bytes.load(std::memory_order_relaxed) == 0 &&
           faults.out_of_order.load(std::memory_order_relaxed) == 0 &&
           faults.drop_qp.load(std::memory_order_relaxed) == 0 &&
           faults.ports_down.load(std::memory_order_relaxed) == 0;
}

void note_inbound(uint32_t receiver, uint64_t due) {
    if (virtual_clock == nullptr || due == InboundWrite::kNotDue) return;
    virtual_events.seen(receiver, due);
    virtual_events.acts(receiver, due);
}

bool try_lock(Host& host, InboundWrite& write) {
    const uint32_t owner = write.lock.owner();
    if (owner == 0 || !host.owner_dead(owner)) return write.lock.try_lock(host);
    write.lock.lock(host, [] {});
    return true;
}

void unlock_and_free(ProcessSlot& process, InboundWrite& write) {
    write.sender.store(0, std::memory_order_release);
    const auto index = static_cast<uint32_t>(&write - process.inbound.entries);
    process.inbound.used.fetch_and(~(uint64_t{1} << index), std::memory_order_release);
    write.lock.unlock();
}

namespace {

// Calls visit(index) for each entry in use.
template <typename Visit>
void for_each_used(const ProcessSlot& process, Visit&& visit) {
    for (uint64_t used = process.inbound.used.load(std::memory_order_acquire); used != 0;
         used &= used - 1)
        visit(static_cast<uint32_t>(__builtin_ctzll(used)));
}

// Whether the write before this one in the sender's queue is placed or has ended. An entry that
// holds another write now shows that it has ended: the sender then freed it with release.
bool is_next(const ProcessSlot& process, const InboundWrite& write, uint32_t sender) {
    if (write.before.index == InboundWrite::kNone) return true;
    const InboundWrite& before = process.inbound.entries[write.before.index];
    return before.sender.load(std::memory_order_acquire) != sender ||
           before.position.load(std::memory_order_acquire) != write.before.position ||
           before.placed.load(std::memory_order_acquire) != 0;
}

bool is_send(const InboundWrite& write) {
    return write.receive.load(std::memory_order_relaxed) != InboundWrite::kNoReceive;
}

// The same for a message whose queue pair is gone, which takes no writes any more.
bool may_be_next(Host& host, const ProcessSlot& process, const InboundWrite& write,
                 uint32_t sender) {
    return is_next(process, write, sender) ||
           (is_send(write) && host.qp(write.responder) == nullptr);
}

bool is_committed(const InboundWrite& write) {
    return write.committed.load(std::memory_order_acquire) != 0;
}

// Whether the queue pair takes the write. A send that has overtaken a committed write is in the
// completion queue, also if the queue pair has failed since.
bool takes(const QpShared& responder, const InboundWrite& write) {
    const QpState state = responder.state.load(std::memory_order_acquire);
    return responds(state) || (state == QpState::kErr && is_committed(write));
}

// Source and target of a write, checked as the sender would.
struct CopyPlan {
    struct Piece {
        const KeyEntry* key;
        uint64_t address;
        uint64_t length;
    };
    Piece pieces[InboundWrite::kSges];  // none: the bytes are staged
    uint32_t count = 0;
    IovList to;
    const KeyEntry* target = nullptr;  // the registration that holds all of `to`; nullptr: several
    QpShared* responder = nullptr;     // of an RDMA write
};

// Adds the sender's memory to a plan. False if a key does not permit the access.
bool plan_sources(Host& host, const InboundWrite& write, const QpShared& sender, uint32_t number,
                  CopyPlan* plan) {
    for (uint32_t i = 0; i < write.num_sge; ++i) {
        const Sge& sge = write.sges[i];
        if (sge.length == 0) continue;
        KeyEntry* key = host.key(sge.lkey);
        uint64_t address;
        if (key == nullptr || KeyNumber::process(sge.lkey) != ObjectNumber::process(number) ||
            key->kind != KeyKind::kRegion ||
            check_key(*key, sge.lkey, sender.pd, number, sge.addr, sge.length, 0, &address) !=
                KeyCheck::kOk)
            return false;
        plan->pieces[plan->count++] = {key, address, sge.length};
    }
    return true;
}

// Whether the sender can still send. A committed write has arrived before that may change.
bool sender_permits(Host& host, const InboundWrite& write, uint32_t number, CopyPlan* plan) {
    if (is_committed(write)) return true;
    const QpShared* sender = host.qp(number);
    return sender != nullptr && sender->state.load(std::memory_order_acquire) == QpState::kRts &&
           sender->attributes.peer_number == write.responder &&
           (write.staged || plan_sources(host, write, *sender, number, plan));
}

bool plan_copy(Host& host, uint32_t owner, const InboundWrite& write, uint32_t number,
               CopyPlan* plan) {
    if (is_send(write)) {
        if (write.num_sge == 1) plan->target = host.key(write.sges[0].lkey);
        return build_scatter_list(host, {write.sges, write.num_sge}, owner, write.pd,
                                  write.responder, &plan->to);
    }
    QpShared* mine = host.qp(write.responder);
    if (mine == nullptr || mine->attributes.peer_number != number || mine->type != QpType::kRc ||
        !takes(*mine, write) || (mine->attributes.access & access_flag::kRemoteWrite) == 0 ||
        KeyNumber::process(write.remote.rkey) != owner ||
        !sender_permits(host, write, number, plan))
        return false;
    plan->responder = mine;
    plan->target = host.key(write.remote.rkey);
    uint64_t address;
    if (plan->target == nullptr ||
        check_key(*plan->target, write.remote.rkey, mine->pd, write.responder, write.remote.address,
                  write.length, access_flag::kRemoteWrite, &address) != KeyCheck::kOk)
        return false;
    plan->to.add(address, write.length, plan->target->relaxed());
    return true;
}

// Copies a range of the message.
CopyResult copy_range(Adapter& adapter, uint32_t owner, const InboundWrite& write,
                      const CopyPlan& plan, uint32_t process, uint64_t begin, uint64_t length) {
    ProcessMemory& memory = adapter.process_memory();
    ProcessSlot& slot = adapter.host().process(owner);
    const Order order = is_send(write) ? Order::kPages : Order::kAscending;
    if (plan.count == 0) {
        IovList from;
        from.add(reinterpret_cast<uint64_t>(slot.staged[&write - slot.inbound.entries]) + begin,
                 length);
        return memory.write(owner, plan.target, from, plan.to.slice(begin, length), order);
    }
    uint64_t at = 0;  // where the piece begins in the message
    for (uint32_t i = 0; i < plan.count && at < begin + length; at += plan.pieces[i++].length) {
        const CopyPlan::Piece& piece = plan.pieces[i];
        const uint64_t from_byte = std::max(at, begin);
        const uint64_t to_byte = std::min(at + piece.length, begin + length);
        if (from_byte >= to_byte) continue;
        IovList from;
        from.add(piece.address + (from_byte - at), to_byte - from_byte);
        const IovList to = plan.to.slice(from_byte, to_byte - from_byte);
        const CopyResult copied = process == adapter.host().slot()
                                      ? memory.write(owner, plan.target, from, to, order)
                                      : memory.read(process, piece.key, from, to, order);
        if (copied != CopyResult::kOk) return copied;
    }
    return CopyResult::kOk;
}

// Places packets that have arrived, under the lock of `write`. Returns when the next one arrives;
// kNotDue if there is none, or a copy failed: then the sender repeats it and reports the error.
uint64_t place_arrived(Adapter& adapter, uint32_t owner, InboundWrite& write, const CopyPlan& plan,
                       uint32_t sender, uint64_t now) {
    Host& host = adapter.host();
    const NicParameters& nic = host.header().config.nic;
    while (write.progress < write.length) {
        const uint64_t rest = write.length - write.progress;
        const uint64_t packet = std::min(rest, kPacketBytes);
        const uint64_t due = arrival_at(write.booking, nic, write.length, write.progress + packet);
        if (now < due && (now = now_ns()) < due) return due;
        const uint64_t arrived = arrived_by(write.booking, nic, write.length, now);
        const uint64_t length = std::max(packet, arrived - std::min(arrived, write.progress));
        if (copy_range(adapter, owner, write, plan, ObjectNumber::process(sender), write.progress,
                       length) != CopyResult::kOk)
            return InboundWrite::kNotDue;
        write.progress += length;
    }
    if (is_send(write)) return InboundWrite::kNotDue;  // its completion has been judged
    report_established(adapter, *plan.responder, plan.responder->number.load());
    record(host.self().lateness, write.posted_at, write.booking.arrival_end, now_ns());
    return InboundWrite::kNotDue;
}

}  // namespace

bool place_and_unlock(Adapter& adapter, uint32_t owner, InboundWrite& write, uint64_t now) {
    Host& host = adapter.host();
    ProcessSlot& slot = host.process(owner);
    const uint32_t sender = write.sender.load(std::memory_order_relaxed);
    if (sender == 0) {  // its sender died before it was published, or while it was freed
        unlock_and_free(slot, write);
        return false;
    }
    if (write.due.load(std::memory_order_relaxed) > now ||
        !may_be_next(host, slot, write, sender)) {
        const bool placed = write.placed.load(std::memory_order_relaxed) != 0;
        write.lock.unlock();
        return placed;
    }
    const uint32_t process = ObjectNumber::process(sender);
    // The copy reads the sender's memory and writes the owner's: the guards prevent that either is
    // freed.
    const AccessGuard sender_guard(host, process);
    const AccessGuard own_guard(host, owner);
    const bool forgotten = write.abandoned || !host.alive(process) || host.qp(sender) == nullptr;
    if (forgotten && !is_committed(write)) {
        unlock_and_free(slot, write);
        return false;
    }
    uint64_t due = InboundWrite::kNotDue;
    CopyPlan plan;
    if (write.progress < write.length &&
        (is_committed(write) || receiver_may_place(host.header().faults)) &&
        plan_copy(host, owner, write, sender, &plan))
        due = place_arrived(adapter, owner, write, plan, sender, now);
    const bool placed = write.progress == write.length;
    write.placed.store(placed ? 1 : 0, std::memory_order_release);
    if (forgotten && due == InboundWrite::kNotDue) {
        unlock_and_free(slot, write);  // it is placed, or it never will be
        return placed;
    }
    // After the copy: who sees this value may take the bytes for placed. The receiver looks again
    // from time to time, for a sender that dies frees nothing.
    write.due.store(due == InboundWrite::kNotDue ? now_ns() + InboundWrite::kLookAgainNs : due,
                    std::memory_order_release);
    note_inbound(owner, due);
    write.lock.unlock();
    return placed;
}

void place_inbound_writes(Adapter& adapter, uint64_t now) {
    Host& host = adapter.host();
    ProcessSlot& self = host.self();
    bool again = true;
    while (again) {  // a placed write may have been what another one waits for
        again = false;
        for_each_used(self, [&](uint32_t index) {
            InboundWrite& write = self.inbound.entries[index];
            if (write.due.load(std::memory_order_acquire) <= now && try_lock(host, write))
                again = place_and_unlock(adapter, host.slot(), write, now) || again;
        });
    }
}

namespace {

// Places a write after those before it. `depth`: how many more of these to place.
void settle_write(Adapter& adapter, uint32_t index, uint64_t now, uint32_t depth) {
    Host& host = adapter.host();
    InboundWrite& write = host.self().inbound.entries[index];
    write.lock.lock(host, [] {});
    const uint32_t sender = write.sender.load(std::memory_order_relaxed);
    if (sender != 0 && depth != 0 && !is_next(host.self(), write, sender)) {
        const uint32_t previous = write.before.index;
        write.lock.unlock();
        settle_write(adapter, previous, now, depth - 1);
        write.lock.lock(host, [] {});
    }
    place_and_unlock(adapter, host.slot(), write, now);
}

}  // namespace

void settle_inbound_writes(Adapter& adapter, uint64_t now) {
    const ProcessSlot& self = adapter.host().self();
    for_each_used(self, [&](uint32_t index) {
        const InboundWrite& write = self.inbound.entries[index];
        if (is_committed(write) && write.due.load(std::memory_order_acquire) <= now)
            settle_write(adapter, index, now, InboundWrite::kMaxQueued);
    });
}

void drop_inbound(Host& host, uint32_t qp_number, bool messages) {
    ProcessSlot& self = host.self();
    for_each_used(self, [&](uint32_t index) {
        InboundWrite& write = self.inbound.entries[index];
        write.lock.lock(host, [] {});
        if (write.sender.load(std::memory_order_relaxed) != 0 && write.responder == qp_number &&
            (write.abandoned || (messages && is_send(write))))
            unlock_and_free(self, write);
        else
            write.lock.unlock();
    });
}

void drop_message_of_claim(Host& host, const QpShared& qp) {
    ProcessSlot& process = host.process(claim_owner(qp));
    const uint64_t name = InboundWrite::receive_name(qp.claim.srq, qp.claim.slot);
    const uint32_t number = qp.number.load(std::memory_order_relaxed);
    for_each_used(process, [&](uint32_t index) {
        InboundWrite& write = process.inbound.entries[index];
        if (write.receive.load(std::memory_order_relaxed) != name) return;
        write.lock.lock(host, [] {});
        if (write.sender.load(std::memory_order_relaxed) != 0 && write.responder == number &&
            write.receive.load(std::memory_order_relaxed) == name &&
            write.placed.load(std::memory_order_relaxed) == 0)
            unlock_and_free(process, write);
        else
            write.lock.unlock();
    });
}

}  // namespace softhca
