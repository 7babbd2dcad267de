// SPDX-License-Identifier: BSD-3-Clause
// Virtual time: what a simulation calls instead of the device's threads.
#include "softhca/core/virtual_time.h"

#include <algorithm>

#include "softhca/verbs/export.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {
namespace {

// The time up to which the device has acted.
uint64_t acted_until = 0;

uint64_t next_event() {
    uint64_t next = ProgressEngine::kNever;
    for_each_member(
        [&](Adapter& adapter) { next = std::min(next, adapter.engine().next_after(acted_until)); });
    return next;
}

}  // namespace

SOFTHCA_EXPORT softhca_virtual_time* softhca_virtual_clock(void) {
    return adapter() == nullptr ? nullptr : virtual_clock;
}

SOFTHCA_EXPORT int softhca_virtual_member(uint32_t member) {
    return softhca_virtual_clock() != nullptr && select_member(member) ? 0 : -1;
}

SOFTHCA_EXPORT uint64_t softhca_virtual_next(void) {
    return next_event();
}

SOFTHCA_EXPORT void softhca_virtual_run(uint64_t time) {
    if (virtual_clock == nullptr) return;
    const uint64_t before = virtual_clock->now;
    for (uint64_t next = next_event(); next <= time; next = next_event()) {
        virtual_clock->now = next;
        for_each_member([next](Adapter& adapter) {
            if (adapter.engine().next_after(acted_until) <= next) adapter.engine().run_at(next);
        });
        acted_until = next;
    }
    virtual_clock->now = before;
}

}  // namespace softhca
