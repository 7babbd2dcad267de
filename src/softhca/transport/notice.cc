// SPDX-License-Identifier: BSD-3-Clause
#include "transport/notice.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transport/adapter.h"

namespace softhca {

namespace {

void mark(ProcessSlot& process, std::atomic<uint64_t>* dirty, uint32_t number) {
    const uint32_t index = ObjectNumber::index(number);
    dirty[index / 64].fetch_or(uint64_t{1} << index % 64, std::memory_order_release);
    ring_doorbell(process);
}

}  // namespace

void ring_doorbell(ProcessSlot& process) {
    process.doorbell.fetch_add(1, std::memory_order_seq_cst);
    if (process.sleeping.load(std::memory_order_seq_cst) != 0) {
        syscall(SYS_futex, &process.doorbell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
}

void notify_cq(Adapter& adapter, CqShared& cq, uint32_t number, uint32_t flags) {
    const uint32_t slot = ObjectNumber::process(number);
    const bool immediate = cq.event_at.load(std::memory_order_relaxed) == 0;
    if (slot == adapter.host().slot() && flags == QueueFlags::kCqEvent && immediate) {
        adapter.engine().deliver_cq_event(number);
        return;
    }
    cq.notices.fetch_or(flags, std::memory_order_release);
    mark(adapter.host().process(slot), adapter.host().process(slot).dirty_cqs, number);
}

void notify_qp(Adapter& adapter, QpShared& qp, uint32_t number, uint32_t flags) {
    qp.notices.fetch_or(flags, std::memory_order_release);
    ProcessSlot& process = adapter.host().process(ObjectNumber::process(number));
    mark(process, process.dirty_qps, number);
}

void notify_srq(Adapter& adapter, SrqShared& srq, uint32_t number, uint32_t flags) {
    srq.notices.fetch_or(flags, std::memory_order_release);
    ProcessSlot& process = adapter.host().process(ObjectNumber::process(number));
    mark(process, process.dirty_srqs, number);
}

}  // namespace softhca
