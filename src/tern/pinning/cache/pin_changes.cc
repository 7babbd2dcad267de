// SPDX-License-Identifier: BSD-3-Clause
// How PinCache handles changes of memory, and pins of other devices' memory, which none affects.
#include <memory>
#include <thread>

#include "tern/base/trace.h"
#include "tern/pinning/cache/pin_cache.h"

namespace tern {

template <class Settled>
bool PinCache::handle_all(Settled&& settled) {
    constexpr int kTries = 20;
    for (int i = 0; i < kTries; ++i) {
        // In this order: settled changes are in the inbox.
        const bool all = settled();
        if (handle_changes() && all) return true;
        // Another thread is putting a change into the inbox, and does not need the lock for it.
        std::this_thread::yield();
    }
    return false;
}

// Whether the index reflects every change of memory that began before this call. Handles all
// changes in the inbox in any case.
bool PinCache::up_to_date() {
    if (const unsigned forks = ForkGuard::forks();
        !survives_fork_ && forks_seen_.load(std::memory_order_relaxed) != forks) {
        // The next store to a page may leave that page to the child (copy on write).
        invalidate_locked({0, UINT64_MAX});
        forks_seen_.store(forks, std::memory_order_release);
    }
    return handle_all([this] { return monitor_->settled(); });
}

// Whether the index reflects every change that ended before this call, whichever thread made it.
bool PinCache::handle_past() {
    return handle_all([this] { return monitor_->quiet(); });
}

bool PinCache::handle_changes() {
    if (inbox_.empty()) return true;
    handling_.store(true, std::memory_order_relaxed);
    const bool all = inbox_.take_all([this](const MemoryChange& happened) { change(happened); });
    handling_.store(false, std::memory_order_release);
    return all;
}

void PinCache::change(const MemoryChange& change) {
    const Range range{change.start, change.end};
    // If the kernel watches this memory, it goes on, and reports the change as well.
    if (!change.hooked || monitor_->needs_hook(range.start, range.end)) monitor_->changed(change);
    if (change.early) quarantine_.add(range.start, range.end);
    invalidate_locked(range);
}

void PinCache::invalidate_locked(const Range& range) {
    drop_overlapping(range);
    recent_.forget(range.start, range.end);
}

void PinCache::drop_overlapping(const Range& range) {
    table_.overlapping(range.start, range.end, [this](Pin* pin) {
        ++counters_.invalidations;
        TERN_TRACE("pin of %#lx to %#lx loses pages", pin->start(), pin->end());
        pin->stale_ = true;
        table_.drop(pin);
    });
    table_.mark_stale(range.start, range.end);
}

void PinCache::invalidate(const void* start, const void* end) {
    if (guard_.inherited()) return;
    const Locked lock(*this);
    handle_changes();
    invalidate_locked({to_word(start), to_word(end)});
}

void PinCache::unmapped(const void* start, const void* end) {
    if (guard_.inherited() || !monitor_->on_announced(to_word(start), to_word(end))) return;
    inbox_.put({.start = to_word(start),
                .end = to_word(end),
                .unmapped = true,
                .early = true,
                .hooked = true});
    reaper_.wake();
}

void PinCache::lost_silently(const void* start, const void* end) {
    if (guard_.inherited()) return;
    inbox_.put({.start = to_word(start), .end = to_word(end), .unmapped = true, .early = true});
    reaper_.wake();
}

void PinCache::clean_up() {
    if (guard_.inherited()) return;
    const Locked lock(*this);
    handle_changes();
}

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
