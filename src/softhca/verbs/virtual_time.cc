// SPDX-License-Identifier: BSD-3-Clause
// Virtual time: what a simulation calls instead of the device's threads.
#include "softhca/core/virtual_time.h"

#include <utility>

#include "softhca/transport/cq.h"
#include "softhca/verbs/export.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

SOFTHCA_EXPORT softhca_virtual_time* softhca_virtual_clock(void) {
    return adapter() == nullptr ? nullptr : virtual_clock;
}

SOFTHCA_EXPORT int softhca_virtual_member(uint32_t member) {
    return softhca_virtual_clock() != nullptr && select_member(member) ? 0 : -1;
}

SOFTHCA_EXPORT int softhca_virtual_peek(softhca_virtual_event* event) {
    const VirtualEvents::Event next = virtual_events.next();
    event->time = next.time;
    event->member = next.member;
    event->seen = next.kind == VirtualEvents::Kind::kSeen ? 1 : 0;
    return virtual_events.empty() ? 0 : 1;
}

SOFTHCA_EXPORT void softhca_virtual_step(void) {
    if (virtual_events.empty()) return;
    const VirtualEvents::Event event = virtual_events.take();
    Adapter* const of = member_adapter(event.member);
    if (event.kind == VirtualEvents::Kind::kSeen || of == nullptr) return;
    const uint64_t before = std::exchange(virtual_clock->now, event.time);
    of->engine().run_at(event.time);
    virtual_clock->now = before;
}

SOFTHCA_EXPORT int softhca_virtual_waits(uint32_t member) {
    Adapter* const of = member_adapter(member);
    if (of == nullptr) return 0;
    const uint32_t end = of->host().cq_indices.end();
    for (uint32_t index = 0; index < end; ++index) {
        Cq* const cq = of->cqs.at(index);
        if (cq != nullptr && cq->has_visible()) return 1;
    }
    return 0;
}

}  // namespace softhca
