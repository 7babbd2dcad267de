// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/notice.h"

#include "softhca/transport/adapter.h"

namespace softhca {

namespace {

void mark_dirty(ProcessSlot& process, std::atomic<uint64_t>* dirty, uint32_t number) {
    const uint32_t index = ObjectNumber::index(number);
    dirty[index / 64].fetch_or(uint64_t{1} << index % 64, std::memory_order_release);
    ring_doorbell(process);
    if (virtual_clock != nullptr) [[unlikely]]
        virtual_events.acts(ObjectNumber::process(number), now_ns());
}

}  // namespace

void raise_cq_notice(Host& host, CqShared& cq, uint32_t number, uint32_t flags) {
    ProcessSlot& process = host.process(ObjectNumber::process(number));
    cq.notices.fetch_or(flags, std::memory_order_release);
    mark_dirty(process, process.doorbell.dirty_cqs, number);
}

void raise_qp_notice(Host& host, QpShared& qp, uint32_t number, uint32_t flags) {
    ProcessSlot& process = host.process(ObjectNumber::process(number));
    qp.notices.fetch_or(flags, std::memory_order_release);
    mark_dirty(process, process.doorbell.dirty_qps, number);
}

void raise_srq_notice(Host& host, SrqShared& srq, uint32_t number, uint32_t flags) {
    ProcessSlot& process = host.process(ObjectNumber::process(number));
    srq.notices.fetch_or(flags, std::memory_order_release);
    mark_dirty(process, process.doorbell.dirty_srqs, number);
}

void notify_cq(Adapter& adapter, CqShared& cq, uint32_t number, uint32_t flags) {
    if (ObjectNumber::process(number) == adapter.host().slot() && flags == Notice::kCqEvent)
        adapter.engine().deliver_cq_event(number);
    else
        raise_cq_notice(adapter.host(), cq, number, flags);
}

}  // namespace softhca
