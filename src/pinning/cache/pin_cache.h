// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "pinning/cache/pin.h"
#include "pinning/cache/pin_index.h"
#include "pinning/cache/reaper.h"
#include "pinning/cache/recent_buffers.h"
#include "pinning/cache/registrar.h"
#include "pinning/regions/access.h"
#include "pinning/watch/fork.h"
#include "pinning/watch/inbox.h"
#include "pinning/watch/monitor.h"

namespace tern {

struct PinSettings {
    MonitorKind monitor = MonitorKind::kAuto;
    // The owner can call unmapped(), and will if monitor() is kUcm.
    bool owner_hears = false;
    uint64_t most_bytes = 0;  // pinned at a time; 0: see default_pinned_bytes()
    // How long nothing is tried after the device had no memory for a registration.
    std::chrono::milliseconds refusal{1000};
    // How long memory that is about to lose its pages is not remembered.
    std::chrono::milliseconds quarantine{20};
    // A thread lets go of what changes make invalid, even if nobody calls the cache.
    bool background = true;
};

struct PinCounters {
    uint64_t pins = 0;  // that exist, in use or remembered
    uint64_t registrations = 0;
    uint64_t hits = 0;
    uint64_t evictions = 0;
    uint64_t invalidations = 0;  // of pins
    uint64_t failures = 0;
    uint64_t pinned_bytes = 0;
    uint64_t pinned_bytes_most = 0;
};

// Half of what may be locked; a quarter of the machine's memory for whom that is not limited.
uint64_t default_pinned_bytes();

// Memory that is really registered, remembered as long as its pages are those of the registration.
// For any thread.
class PinCache {
  public:
    PinCache(ibv_pd* pd, const PinSettings& settings);
    PinCache(std::unique_ptr<Registrar> registrar, const PinSettings& settings);
    // Deregisters everything, in use or not.
    ~PinCache();
    PinCache(const PinCache&) = delete;
    PinCache& operator=(const PinCache&) = delete;

    MonitorKind monitor() const { return monitor_->kind(); }
    uint64_t most_bytes() const { return most_bytes_; }

    // A pin that covers the range and gives these rights, with a reference; null if there is none.
    // Never a registration, never waits for one.
    Pin* find(const void* address, size_t length, unsigned access);
    // The same, but registers the pages if need be. Null and errno: ENOMEM if the cap or the limit
    // of locked memory is reached, EFAULT if there is no such memory or it may not be written.
    // After ENOMEM from the device it says so for a while without trying.
    Pin* pin(const void* address, size_t length, unsigned access);
    void release(Pin* pin);

    // Counts the use of a buffer; returns how often it has come, this time included. A buffer that
    // has come twice is watched: if it comes a third time, it was not unmapped in between. While a
    // change is being told, this memory may be new: it counts as such.
    uint32_t note(const void* address, size_t length);
    uint32_t uses(const void* address, size_t length);

    // The pages of this memory are not, or will not be, what they were. Pins of it are not found
    // any more; deregistered now, or when the last reference goes.
    void invalidate(const void* start, const void* end);
    // The same, but may be called from within malloc() or munmap(), whatever locks the thread
    // holds, before the pages go. Found no more from now on, deregistered soon.
    void unmapped(const void* start, const void* end);
    // Deregisters what invalid memory still has pinned. Cheap if there is nothing to do.
    void progress() {
        if (!inbox_.empty()) clean_up();
    }

    PinCounters counters() const;

  private:
    using Clock = std::chrono::steady_clock;

    struct Range {
        uint64_t start = 0;
        uint64_t end = 0;
    };
    struct Quarantined {
        Range range;
        Clock::time_point until;
    };
    static constexpr unsigned kQuarantined = 128;

    static bool pages(const void* address, size_t length, Range& range);

    // Under the lock.
    Pin* lookup(const Range& range, unsigned access);
    template <class Settled>
    bool handle_all(Settled&& settled);
    bool up_to_date();
    bool handle_past();
    bool handle_changes();
    void change(const MemoryChange& change);
    void invalidate_locked(const Range& range);
    void drop(Pin* pin);
    void hold(Pin* pin);
    void quarantine(const Range& range);
    bool quarantined(const Range& range) const;
    PinList take_dead() { return std::exchange(dead_, {}); }
    bool reserve(uint64_t bytes, std::unique_lock<std::mutex>& lock);
    bool evict();
    void publish(Pin* pin);

    // Not under the lock.
    void clean_up();
    void deregister(PinList dead);
    bool register_memory(Pin* pin, unsigned also);

    ForkGuard guard_;
    std::unique_ptr<Registrar> registrar_;
    const PinSettings settings_;
    const uint64_t most_bytes_;

    mutable std::mutex mutex_;
    PinIndex index_;
    PinList unused_;       // listed, without a reference
    PinList registering_;  // being registered
    PinList used_;         // with a reference
    PinList dead_;         // to be deregistered
    uint64_t dying_ = 0;   // bytes: dead, or being deregistered
    RecentBuffers recent_;
    std::array<Quarantined, kQuarantined> quarantine_{};
    unsigned quarantine_next_ = 0;
    Clock::time_point quarantine_all_until_{};  // there was no room for one that lasts so long
    Clock::time_point refused_until_{};
    PinCounters counters_;

    const bool survives_fork_;
    unsigned forks_seen_ = ForkGuard::forks();
    Inbox inbox_;
    // What is told while nobody communicates.
    Reaper reaper_{[this] { clean_up(); }};
    std::unique_ptr<Monitor> monitor_;
};

}  // namespace tern
