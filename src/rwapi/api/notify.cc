// SPDX-License-Identifier: BSD-3-Clause

// Signals and slots at the target.

#include <atomic>

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

// Peers change words by writes, too, which make no event.
constexpr int64_t kLookAtWord = 1000;  // microseconds

// For wait_until(). 1: the slot is set; 0: it is not; or an error.
int check_slot(Engine& engine, uint32_t slot, uint64_t* value) {
    const Slots& slots = engine.slots();
    if (!slots.has(slot)) return RWAPI_ERR_RANGE;
    if (!slots.is_set(slot)) return 0;
    if (value != nullptr) *value = slots.value(slot);
    return 1;
}

}  // namespace

extern "C" {

uint64_t rwapi_signal_read(const uint64_t* word) {
    return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load(std::memory_order_acquire);
}

int rwapi_signal_wait(rwapi_context* context, const uint64_t* word, uint64_t value,
                      int64_t timeout) {
    if (word == nullptr || reinterpret_cast<uintptr_t>(word) % sizeof *word != 0)
        return RWAPI_ERR_INVALID;
    return success_of(wait_for_peers(
        context, timeout, [=](Engine&) { return rwapi_signal_read(word) >= value ? 1 : 0; },
        kLookAtWord));
}

int rwapi_notify_test(rwapi_context* context, uint32_t slot, int* set, uint64_t* value) {
    if (set == nullptr) return RWAPI_ERR_INVALID;
    return answer(test(context, [=](Engine& engine) { return check_slot(engine, slot, value); }),
                  *set);
}

int rwapi_notify_wait(rwapi_context* context, uint32_t slot, uint64_t* value, int64_t timeout) {
    return success_of(wait_for_peers(
        context, timeout, [=](Engine& engine) { return check_slot(engine, slot, value); }));
}

int rwapi_notify_waitsome(rwapi_context* context, uint32_t first, uint32_t n, uint32_t* slot,
                          int64_t timeout) {
    if (slot == nullptr || n == 0) return RWAPI_ERR_INVALID;
    return success_of(wait_for_peers(context, timeout, [=](Engine& engine) {
        if (!engine.slots().has(first, n)) return static_cast<int>(RWAPI_ERR_RANGE);
        const uint32_t found = engine.slots().find(first, n);
        if (found == first + n) return 0;
        *slot = found;
        return 1;
    }));
}

int rwapi_notify_reset(rwapi_context* context, uint32_t slot, uint64_t* value) {
    return with(context, [=](Engine& engine) {
        const int set = check_slot(engine, slot, value);
        return set == 1
                   ? static_cast<int>(std::min<uint64_t>(engine.slots().reset(slot), INT32_MAX))
                   : set;
    });
}

}  // extern "C"
