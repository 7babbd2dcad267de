// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "tern/base/shortage.h"
#include "tern/pinning/cache/pin_table.h"
#include "tern/pinning/cache/quarantine.h"
#include "tern/pinning/cache/reaper.h"
#include "tern/pinning/cache/recent_buffers.h"
#include "tern/pinning/regions/regions.h"
#include "tern/pinning/watch/fork.h"
#include "tern/pinning/watch/monitor.h"

namespace tern {

// Registers memory with the device.
class Registrar {
  public:
    virtual ~Registrar() = default;
    // `access`: ibv_access_flags. Null and errno on failure.
    virtual ibv_mr* add(void* address, size_t length, int access) = 0;
    virtual void remove(ibv_mr* region) = 0;
    // Whether the device can do without pinning: IBV_ACCESS_ON_DEMAND.
    virtual bool on_demand() const { return false; }
    // Whether the parent keeps the registered pages when the process forks.
    virtual bool survives_fork() const { return true; }
};

class VerbsRegistrar final : public Registrar {
  public:
    explicit VerbsRegistrar(ibv_pd* pd) : pd_(pd) {}
    ibv_mr* add(void* address, size_t length, int access) override {
        return ibv_reg_mr(pd_, address, length, access);
    }
    void remove(ibv_mr* region) override { ibv_dereg_mr(region); }
    bool on_demand() const override {
        ibv_device_attr_ex attributes{};
        if (ibv_query_device_ex(pd_->context, nullptr, &attributes) != 0) return false;
        uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
        if (attributes.orig_attr.atomic_cap != IBV_ATOMIC_NONE) needed |= IBV_ODP_SUPPORT_ATOMIC;
        return (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
               (attributes.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
    }
    bool survives_fork() const override { return ibv_is_fork_initialized() != IBV_FORK_DISABLED; }

  private:
    ibv_pd* pd_;
};

struct PinSettings {
    MonitorKind monitor = MonitorKind::kAuto;
    // The owner has hooks: it calls unmapped() if monitor() is kUcm, or if `monitor` is kAuto.
    bool has_hooks = false;
    // The hooks see every change of any memory that is made by a function of libc.
    bool hooks_see_all = false;
    uint64_t most_bytes = 0;  // pinned at a time, at most; 0: default_pinned_bytes()
    // How long pin() does not register after the device had no memory for it, at first.
    std::chrono::milliseconds refusal{kMemoryRetry};
    // Is told once that the device has none, under the lock of the cache.
    std::function<void(const std::string&)> warn = [](const std::string&) {};
    // How long pins of memory that is about to lose its pages are not remembered, at least.
    std::chrono::milliseconds quarantine{kTunables.pin_quarantine};
    // A thread deregisters invalid pins, even if the cache is not called.
    bool background = true;
    // Registers with relaxed ordering, except for atomic operations: transfers read a pin only
    // after a completion.
    bool relaxed = false;
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

// Half of the limit of locked memory; without such a limit, a quarter of the machine's memory.
uint64_t default_pinned_bytes();

// Registered memory. Registrations are remembered after use, as long as the memory keeps the pages
// that were registered. For any thread.
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
    // Never registers, nor waits for a registration.
    Pin* find(const void* address, size_t length, unsigned access);
    // Like find(), but registers the pages if need be. Null and errno: ENOMEM if most_bytes() or
    // the limit of locked memory is reached, EFAULT if the memory is not mapped or may not be
    // written, EINVAL if the range is empty. After ENOMEM from the device, fails with ENOMEM for a
    // while. `found`, unless null: whether the pin existed already.
    Pin* pin(const void* address, size_t length, unsigned access, bool* found = nullptr);
    void release(Pin* pin);
    // Gives up pins that are not in use, of so many bytes if there are as many: others may share
    // the limit of locked memory. False: of none.
    bool give_up(uint64_t bytes);
    void warn(const std::string& line) const { settings_.warn(line); }
    // Whether a pin that the caller holds would be found now. Data path.
    bool is_current(const Pin& pin) {
        // In this order: settled changes are in the inbox until they are being handled.
        return !guard_.inherited() && monitor_->settled() && inbox_.empty() &&
               !handling_.load(std::memory_order_acquire) &&
               pin.listed_.load(std::memory_order_acquire) &&
               (survives_fork_ ||
                forks_seen_.load(std::memory_order_acquire) == ForkGuard::forks());
    }

    // Takes over the registration of memory of another device, which the processor may not touch,
    // and returns its pin, with a reference. Until retire(), find() and pin() return this pin for
    // every part of the memory. It is not evicted, and no change of the process's memory affects
    // it. Throws std::bad_alloc; then the registration is still the caller's.
    Pin* adopt(ibv_mr* region, const void* address, size_t length, unsigned access);
    // The memory is not found any more. Takes the caller's reference; the last one deregisters.
    void retire(Pin* pin);
    // A pin of such memory that covers the range, with a reference; null if there is none.
    Pin* find_of_device(const void* address, size_t length, unsigned access);
    // Whether there is any such memory.
    bool has_device_memory() const { return device_pins_.load(std::memory_order_relaxed) != 0; }

    // A number that changes when pins should be given back soon: because some are not found any
    // more, or room is wanted.
    uint64_t changes() const { return table_.changes(); }

    // Counts a use of a buffer; returns the number of its recent uses, this one included. A buffer
    // is watched from its second use on: at the third, it has not been unmapped in between. While
    // changes are on their way to the cache, the memory may be new, so it counts as new.
    uint32_t note(const void* address, size_t length);
    uint32_t uses(const void* address, size_t length);
    // False: a pin of this buffer was not remembered after its use, nor will the next one be, for
    // example because no monitor reports when the memory loses its pages.
    bool keeps(const void* address, size_t length);

    // The memory has lost its pages, or will. Its pins are not found any more, and are deregistered
    // now or with their last reference.
    void invalidate(const void* start, const void* end);
    // Called by a hook of the owner (PinSettings) before the pages go. May be called from
    // within malloc() or munmap(), whatever locks the thread holds. The pins are deregistered soon.
    void unmapped(const void* start, const void* end);
    // Like unmapped(), for a change that the kernel does not report to any monitor.
    void lost_silently(const void* start, const void* end);
    // Called by a hook when a change of some memory begins, after unmapped(), and when it has
    // ended. Without these calls, the cache may take a change to last for a second.
    void change_begins() { monitor_->change_begins(); }
    void change_ends() { monitor_->change_ends(); }
    // Handles changes of memory, and deregisters invalid pins. Cheap if there are no changes.
    void progress() {
        if (has_changes()) clean_up();
    }
    bool has_changes() const { return !inbox_.empty(); }

    PinCounters counters() const;

  private:
    // Holds the lock; at its end, deregisters the dead pins without it.
    class Locked {
      public:
        explicit Locked(PinCache& cache) : cache_(cache), lock_(cache.mutex_) {}
        ~Locked() { clear(); }
        Locked(const Locked&) = delete;
        Locked& operator=(const Locked&) = delete;

        void lock() { lock_.lock(); }
        // Releases the lock, and deregisters the dead pins.
        void clear() {
            const PinList dead = cache_.table_.take_dead();
            lock_.unlock();
            if (!dead.empty()) cache_.deregister(dead);
        }

      private:
        PinCache& cache_;
        std::unique_lock<std::mutex> lock_;
    };
    class Registration;  // of one pin
    struct Range {
        uint64_t start = 0;
        uint64_t end = 0;

        // False: the buffer is empty, or wraps around.
        static bool pages(const void* address, size_t length, Range& range);
    };

    // Called under the lock.
    Pin* lookup(const Range& range, unsigned access);
    template <class Settled>
    bool handle_all(Settled&& settled);
    bool up_to_date();
    bool handle_past();
    bool handle_changes();
    void change(const MemoryChange& change);
    void invalidate_locked(const Range& range);
    void drop_overlapping(const Range& range);
    bool reserve(uint64_t bytes, Locked& lock);
    bool evict();
    void publish(Pin* pin);

    // Called without the lock.
    void clean_up();
    void deregister(PinList dead);
    bool register_memory(Pin* pin, unsigned other_rights);

    ForkGuard guard_;
    std::unique_ptr<Registrar> registrar_;
    const PinSettings settings_;
    const uint64_t most_bytes_;

    mutable std::mutex mutex_;  // for the members from here to counters_
    PinTable table_;
    RecentBuffers recent_;
    Quarantine quarantine_;
    Shortage shortage_;
    PinCounters counters_;

    std::atomic<size_t> device_pins_{0};
    const bool survives_fork_;
    std::atomic<unsigned> forks_seen_{ForkGuard::forks()};
    Inbox inbox_;
    std::atomic<bool> handling_{false};  // changes have been taken out of the inbox
    // Handles changes while the cache is not called.
    Reaper reaper_{[this] { clean_up(); }};
    std::unique_ptr<Monitor> monitor_;
};

// Bytes of the longest buffer that users of the cache should have pinned.
inline uint64_t longest_pin(const PinCache& pins) {
    return pins.most_bytes() / kPinShare;
}

}  // namespace tern
