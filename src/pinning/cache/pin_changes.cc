// SPDX-License-Identifier: BSD-3-Clause
// How PinCache handles changes of memory.
#include <algorithm>
#include <thread>

#include "pinning/cache/pin_cache.h"

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
    return handle_all([this] { return monitor_->settle(pinned_); });
}

// The same for changes that ended before this call, by this thread or by others.
bool PinCache::handle_past() {
    return handle_all([this] { return monitor_->quiet(); });
}

bool PinCache::handle_changes() {
    if (inbox_.empty()) return true;
    handling_.store(true, std::memory_order_relaxed);
    const bool all = inbox_.take_all([this](const MemoryChange& happened) { change(happened); });
    monitor_->review(pinned_);
    handling_.store(false, std::memory_order_release);
    return all;
}

void PinCache::change(const MemoryChange& change) {
    const Range range{change.start, change.end};
    if (change.hooked && !monitor_->needs_hook(range.start, range.end)) return;
    monitor_->changed(change);
    if (change.early) quarantine(range);
    invalidate_locked(range);
}

bool PinCache::pinned(const Range& range) const {
    if (index_.overlaps(range.start, range.end)) return true;
    for (const Pin* pin = registering_.newest(); pin != nullptr; pin = PinList::next(pin))
        if (!pin->stale_ && pin->overlaps(range.start, range.end)) return true;
    return false;
}

void PinCache::invalidate_locked(const Range& range) {
    drop_overlapping(range);
    recent_.forget(range.start, range.end);
}

void PinCache::drop_overlapping(const Range& range) {
    index_.overlapping(range.start, range.end, [this](Pin* pin) {
        ++counters_.invalidations;
        drop(pin);
    });
    for (Pin* pin = registering_.newest(); pin != nullptr; pin = PinList::next(pin))
        if (pin->overlaps(range.start, range.end)) pin->stale_ = true;
}

// Takes a pin out of the index. Without a reference, the pin is dead.
void PinCache::drop(Pin* pin) {
    index_.remove(pin);
    changes_.fetch_add(1, std::memory_order_relaxed);
    if (pin->references_ > 0) return;
    unused_.remove(pin);
    dead_.add(pin);
    dying_ += pin->end_ - pin->start_;
}

// Memory whose pages go soon must not be remembered with those pages: the thread that caused the
// event, by madvise() say, may not have dropped them yet. No event tells when it has, so the cache
// allows a fixed time.
void PinCache::quarantine(const Range& range) {
    const auto until = Clock::now() + settings_.quarantine;
    for (Quarantined& one : quarantine_)
        if (one.range.start <= range.start && range.end <= one.range.end) {
            one.until = until;
            return;
        }
    Quarantined& slot = quarantine_[quarantine_next_++ % kQuarantined];
    quarantine_all_until_ = std::max(quarantine_all_until_, slot.until);
    slot = {range, until};
}

bool PinCache::quarantined(const Range& range) const {
    const auto now = Clock::now();
    if (quarantine_all_until_ > now) return true;
    return std::ranges::any_of(quarantine_, [&](const Quarantined& one) {
        return one.until > now && one.range.start < range.end && range.start < one.range.end;
    });
}

void PinCache::invalidate(const void* start, const void* end) {
    if (guard_.inherited()) return;
    PinList dead;
    {
        const std::lock_guard lock(mutex_);
        handle_changes();
        invalidate_locked({to_word(start), to_word(end)});
        dead = take_dead();
    }
    deregister(dead);
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

void PinCache::clean_up() {
    if (guard_.inherited()) return;
    PinList dead;
    {
        const std::lock_guard lock(mutex_);
        handle_changes();
        dead = take_dead();
    }
    deregister(dead);
}

}  // namespace tern
