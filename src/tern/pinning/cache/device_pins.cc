// SPDX-License-Identifier: BSD-3-Clause
// How PinCache keeps the pins of other devices' memory.
#include <memory>

#include "tern/base/trace.h"
#include "tern/pinning/cache/pin_cache.h"

namespace tern {

Pin* PinCache::adopt(ibv_mr* region, const void* address, size_t length, unsigned access) {
    auto pin = std::make_unique<Pin>();
    pin->start_ = to_word(address);
    pin->end_ = pin->start_ + length;
    pin->access_ = access;
    pin->region_ = region;
    pin->of_device_ = true;
    const std::lock_guard lock(mutex_);
    table_.adopt(pin.get());
    ++counters_.registrations;
    ++counters_.pins;
    device_pins_.fetch_add(1, std::memory_order_relaxed);
    TERN_TRACE("%#lx to %#lx are memory of a device", pin->start(), pin->end());
    return pin.release();
}

void PinCache::retire(Pin* pin) {
    if (guard_.inherited()) return;
    {
        const std::lock_guard lock(mutex_);
        table_.retire(pin);
        device_pins_.fetch_sub(1, std::memory_order_relaxed);
    }
    release(pin);
}

Pin* PinCache::find_of_device(const void* address, size_t length, unsigned access) {
    if (!has_device_memory() || guard_.inherited()) [[likely]]
        return nullptr;
    const uint64_t start = to_word(address);
    const std::lock_guard lock(mutex_);
    Pin* const pin = table_.find_of_device(start, start + length, access);
    if (pin == nullptr) return nullptr;
    table_.hold(pin);
    ++counters_.hits;
    return pin;
}

}  // namespace tern
