// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/inbound_queue.h"

#include <algorithm>
#include <cstring>

#include "softhca/transport/adapter.h"
#include "softhca/transport/execute.h"
#include "softhca/transport/inbound.h"
#include "softhca/transport/paging.h"
#include "softhca/transport/qp.h"

namespace softhca {
namespace {

// Allocates an entry and locks it; kNone if all are in use.
uint32_t allocate_inbound(Host& host, ProcessSlot& process) {
    InboundWrites& inbound = process.inbound;
    for (uint64_t free = ~inbound.used.load(std::memory_order_relaxed); free != 0;
         free &= free - 1) {
        const auto index = static_cast<uint32_t>(__builtin_ctzll(free));
        InboundWrite& write = inbound.entries[index];
        if (!try_lock(host, write)) continue;  // another sender allocates it
        const uint64_t bit = uint64_t{1} << index;
        if ((inbound.used.load(std::memory_order_relaxed) & bit) == 0) {
            // When the receiver looks whether this process has died before it publishes the entry.
            write.due.store(now_ns() + InboundWrite::kLookAgainNs, std::memory_order_relaxed);
            inbound.used.fetch_or(bit, std::memory_order_release);
            return index;
        }
        write.lock.unlock();
    }
    return InboundWrite::kNone;
}

// Whether an entry, whose lock the caller holds, still has the write of that queue pair at that
// position: if not, the receiver has freed it, or has died, and another process uses its slot.
bool holds(const InboundWrite& write, uint32_t qp_number, uint64_t position) {
    return write.sender.load(std::memory_order_relaxed) == qp_number &&
           write.position.load(std::memory_order_relaxed) == position;
}

bool fits_inbound(const Qp& qp, const Wqe& wqe) {
    return qp.attributes().type == QpType::kRc && wqe.opcode == WrOpcode::kRdmaWrite &&
           wqe.length != 0 && !wqe.state.backwards && wqe.has_left() &&
           (wqe.length <= InboundWrite::kStagedBytes ||
            (!wqe.is_inline && wqe.num_sge <= InboundWrite::kSges));
}

// Describes a write in an entry whose lock the caller holds.
void fill_inbound(InboundWrite& write, const Wqe& wqe) {
    write.placed.store(0, std::memory_order_relaxed);
    write.committed.store(0, std::memory_order_relaxed);
    write.receive.store(InboundWrite::kNoReceive, std::memory_order_relaxed);
    write.abandoned = false;
    write.progress = wqe.state.progress;
    write.length = wqe.length;
    write.remote = wqe.remote;
    write.posted_at = wqe.posted_at;
    write.booking = wqe.booking;
    write.staged = wqe.length <= InboundWrite::kStagedBytes;
    if (!write.staged) {
        write.num_sge = wqe.num_sge;
        std::copy_n(wqe.sges(), wqe.num_sge, write.sges);
    }
}

// Describes a message that takes a receive.
void fill_message(InboundWrite& write, const Wqe& wqe, uint64_t length,
                  const MessageTarget& target) {
    fill_inbound(write, wqe);
    write.committed.store(1, std::memory_order_relaxed);
    write.progress = 0;
    write.length = length;
    write.staged = true;
    write.num_sge = 0;
    if (target.receive == nullptr) return;
    write.receive.store(InboundWrite::receive_name(target.srq, target.receive->slot),
                        std::memory_order_relaxed);
    write.pd = target.pd;
    uint64_t skip = target.offset;
    for (Sge sge : target.receive->elements()) {
        if (length == 0 || write.num_sge == InboundWrite::kSges) break;
        const auto skipped = static_cast<uint32_t>(std::min<uint64_t>(skip, sge.length));
        skip -= skipped;
        sge.addr += skipped;
        sge.length = static_cast<uint32_t>(std::min<uint64_t>(sge.length - skipped, length));
        length -= sge.length;
        if (sge.length != 0) write.sges[write.num_sge++] = sge;
    }
}

// Copies the bytes of a write. False if they cannot be read, which the kernel reports and a plain
// copy, as into shared memory, cannot.
bool stage(ProcessMemory& memory, uint32_t slot, const Wqe& wqe, bool plain, const IovList& local,
           char* bytes) {
    if (!plain && !wqe.is_inline) {
        IovList to;
        to.add(reinterpret_cast<uint64_t>(bytes), local.length());
        return memory.read(slot, nullptr, local, to) == CopyResult::kOk;
    }
    for (uint32_t i = 0; i < local.count(); ++i) {
        const iovec& piece = local.data()[i];
        std::memcpy(bytes, piece.iov_base, piece.iov_len);
        bytes += piece.iov_len;
    }
    return true;
}

}  // namespace

InboundLock::InboundLock(Qp& qp, Wqe& wqe) : wqe_(wqe) {
    InboundQueue& queue = qp.requester.inbound();
    if (queue.size_ == 0) return;
    Host& host = qp.adapter().host();
    receiver_ = queue.entry(0).process;
    guard_.emplace(host, receiver_);
    InboundWrite& write = queue.shared(host, queue.entry(0));
    if (!try_lock(host, write)) {
        busy_ = true;
        return;
    }
    if (!holds(write, qp.number(), queue.entry(0).position)) {
        write.lock.unlock();  // the receiver has died, and another process uses its slot
        queue.clear(host, qp.number());
    } else {
        write_ = &write;
        wqe.state.progress = write.progress;
        wqe.state.committed = write.committed.load(std::memory_order_relaxed) != 0;
    }
}

InboundLock::~InboundLock() {
    if (write_ == nullptr) return;
    write_->progress = wqe_.state.progress;
    if (wqe_.state.backwards) write_->due.store(InboundWrite::kNotDue, std::memory_order_relaxed);
    write_->lock.unlock();
}

bool InboundLock::wait_until(uint64_t due) {
    if (write_ == nullptr) return false;
    write_->due.store(due, std::memory_order_relaxed);
    note_inbound(receiver_, due);
    return true;
}

// Under the entry's lock: shows it to the receiver.
void InboundQueue::publish(InboundWrite& write, uint32_t process, Qp& qp, const Wqe& wqe) {
    write.position.store(wqe.position, std::memory_order_relaxed);
    write.before = {};
    if (size_ != 0 && entry(size_ - 1).process == process)
        write.before = {entry(size_ - 1).index, entry(size_ - 1).position};
    const uint64_t due = next_arrival(qp, wqe);
    write.due.store(due, std::memory_order_relaxed);
    note_inbound(process, due);
    write.sender.store(qp.number(), std::memory_order_release);
    if (write.staged && staged_ == size_) ++staged_;
    if (write.committed.load(std::memory_order_relaxed) != 0) ++committed_;
}

bool InboundQueue::push(Qp& qp, Wqe& wqe) {
    Host& host = qp.adapter().host();
    if (size_ == kCapacity || !fits_inbound(qp, wqe) || !receiver_may_place(host.header().faults))
        return false;
    const uint32_t owner = ObjectNumber::process(qp.shared().attributes.peer_number);
    const AccessGuard guard(host, owner);
    if (names_paged_region(host, wqe)) return false;
    IovList local;
    const KeyEntry* target = nullptr;
    if (!check_write(qp, wqe, &local, &target)) return false;
    ProcessSlot& process = host.process(owner);
    const uint32_t index = allocate_inbound(host, process);
    if (index == InboundWrite::kNone) return false;
    InboundWrite& write = process.inbound.entries[index];
    fill_inbound(write, wqe);
    if (write.staged && !stage(qp.adapter().process_memory(), host.slot(), wqe,
                               target->share_id != 0, local, process.staged[index])) {
        unlock_and_free(process, write);
        return false;
    }
    write.responder = qp.shared().attributes.peer_number;
    publish(write, owner, qp, wqe);
    write.lock.unlock();
    entry(size_++) = {index, owner, wqe.position};
    return true;
}

bool InboundQueue::fits_message(const Qp& qp, const Wqe& wqe) {
    const bool fits =
        wqe.opcode == WrOpcode::kSend || wqe.opcode == WrOpcode::kSendImm ||
        (wqe.opcode == WrOpcode::kRdmaWriteImm && qp.attributes().type == QpType::kRc);
    return fits && !wqe.datagram.path.multicast && wqe.state.progress == 0 &&
           !wqe.state.backwards && wqe.has_left() &&
           wqe.length <= InboundWrite::kStagedBytes - kGrhBytes;
}

bool InboundQueue::push_message(Qp& qp, const Wqe& wqe, const IovList& local,
                                const MessageTarget& target, bool* failed) {
    Host& host = qp.adapter().host();
    // Those before it are committed, so that the receiver places them first.
    if (size_ == kCapacity || committed_ != size_ || !fits_message(qp, wqe) ||
        !receiver_may_place(host.header().faults))
        return false;
    ProcessSlot& process = host.process(target.process);
    const uint32_t index = allocate_inbound(host, process);
    if (index == InboundWrite::kNone) return false;
    InboundWrite& write = process.inbound.entries[index];
    const uint64_t length = local.length();
    fill_message(write, wqe, length, target);
    if (!stage(qp.adapter().process_memory(), host.slot(), wqe, target.plain, local,
               process.staged[index])) {
        unlock_and_free(process, write);
        *failed = true;
        return false;
    }
    write.responder = target.responder;
    publish(write, target.process, qp, wqe);
    write.lock.unlock();
    entry(size_++) = {index, target.process, wqe.position};
    return true;
}

Outcome InboundQueue::finish_message(Qp& qp, const Wqe& wqe, uint64_t now) {
    if (size_ == 0 || entry(0).position != wqe.position) return Outcome::complete();
    Host& host = qp.adapter().host();
    const AccessGuard guard(host, entry(0).process);
    InboundWrite& write = shared(host, entry(0));
    if (!try_lock(host, write)) return Outcome::again(now_ns() + InboundWrite::kLockRetryNs);
    if (!holds(write, qp.number(), wqe.position)) {
        write.lock.unlock();  // the receiver has reset its queue pair, or has died
        return Outcome::complete();
    }
    if (place_and_unlock(qp.adapter(), entry(0).process, write, now)) return Outcome::complete();
    if (now < wqe.booking.arrival_end)
        return Outcome::again(write.due.load(std::memory_order_relaxed));
    return Outcome::complete();  // it cannot be placed: its memory is not registered any more
}

bool InboundQueue::settle(Qp& qp, uint64_t now) {
    Host& host = qp.adapter().host();
    for (uint32_t i = 0; i < size_; ++i) {
        const AccessGuard guard(host, entry(i).process);
        InboundWrite& write = shared(host, entry(i));
        if (write.placed.load(std::memory_order_acquire) != 0) continue;
        if (!try_lock(host, write)) return false;
        if (!holds(write, qp.number(), entry(i).position))
            write.lock.unlock();
        else if (!place_and_unlock(qp.adapter(), entry(i).process, write, now))
            return false;
    }
    return true;
}

bool InboundQueue::commit(Qp& qp) {
    if (staged_ != size_) return false;
    Host& host = qp.adapter().host();
    for (; committed_ != size_; ++committed_) {
        const AccessGuard guard(host, entry(committed_).process);
        InboundWrite& write = shared(host, entry(committed_));
        write.lock.lock(host, [] {});
        const bool mine = write.sender.load(std::memory_order_relaxed) == qp.number();
        if (mine) write.committed.store(1, std::memory_order_release);
        write.lock.unlock();
        if (!mine) return false;  // the receiver has died, and another process uses its slot
    }
    return true;
}

// `ended`: whether the write has.
void InboundQueue::free_entry(Host& host, uint32_t qp_number, const Entry& entry, bool ended) {
    const AccessGuard guard(host, entry.process);
    InboundWrite& write = shared(host, entry);
    write.lock.lock(host, [] {});
    if (!holds(write, qp_number, entry.position)) {
        write.lock.unlock();  // the receiver has freed it, or has died
    } else if (write.committed.load(std::memory_order_relaxed) != 0 && !ended &&
               write.progress != write.length) {
        write.abandoned = true;
        if (write.due.load(std::memory_order_relaxed) == InboundWrite::kNotDue)
            write.due.store(0, std::memory_order_release);
        note_inbound(entry.process, 0);
        write.lock.unlock();
    } else {
        unlock_and_free(host.process(entry.process), write);
    }
}

void InboundQueue::pop(Host& host, uint32_t qp_number, uint64_t position) {
    if (size_ != 0 && entry(0).position == position) {
        free_entry(host, qp_number, entry(0), true);
        first_ = (first_ + 1) % kCapacity;
        --size_;
        committed_ -= std::min(committed_, 1U);
        staged_ -= std::min(staged_, 1U);
    }
}

void InboundQueue::take_back(Host& host, uint32_t qp_number) {
    free_entry(host, qp_number, entry(--size_), true);
    committed_ = std::min(committed_, size_);
    staged_ = std::min(staged_, size_);
}

void InboundQueue::clear(Host& host, uint32_t qp_number) {
    // The last one first: no write may be taken for the next one while those before it end
    // unplaced.
    while (size_ != 0) free_entry(host, qp_number, entry(--size_), false);
    committed_ = 0;
    staged_ = 0;
}

}  // namespace softhca
