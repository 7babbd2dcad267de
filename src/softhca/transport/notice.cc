// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/notice.h"

#include "softhca/transport/adapter.h"

namespace softhca {

namespace {

// `dirty`: the owner's table of such objects.
template <typename Shared, typename Table>
void raise(Host& host, Shared& object, Table Doorbell::*dirty, uint32_t number, uint32_t flags) {
    object.notices.fetch_or(flags, std::memory_order_release);
    ProcessSlot& process = host.process(ObjectNumber::process(number));
    const uint32_t index = ObjectNumber::index(number);
    (process.doorbell.*dirty)[index / 64].fetch_or(uint64_t{1} << index % 64,
                                                   std::memory_order_release);
    ring_doorbell(process);
    note_acts(ObjectNumber::process(number), now_ns());
}

}  // namespace

void raise_cq_notice(Host& host, CqShared& cq, uint32_t number, uint32_t flags) {
    raise(host, cq, &Doorbell::dirty_cqs, number, flags);
}

void raise_qp_notice(Host& host, QpShared& qp, uint32_t number, uint32_t flags) {
    raise(host, qp, &Doorbell::dirty_qps, number, flags);
}

void raise_srq_notice(Host& host, SrqShared& srq, uint32_t number, uint32_t flags) {
    raise(host, srq, &Doorbell::dirty_srqs, number, flags);
}

void notify_cq(Adapter& adapter, CqShared& cq, uint32_t number, uint32_t flags) {
    if (ObjectNumber::process(number) == adapter.host().slot() && flags == Notice::kCqEvent)
        adapter.engine().deliver_cq_event(number);
    else
        raise_cq_notice(adapter.host(), cq, number, flags);
}

}  // namespace softhca
