// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace tern {

// Memory that has lost, or is about to lose, its pages.
struct MemoryChange {
    uint64_t start = 0;
    uint64_t end = 0;
    bool unmapped = false;  // the mapping itself goes, not only its pages
    bool early = false;     // reported before it happens
    bool hooked = false;    // reported by a hook of the owner
    uint64_t moved_to = 0;  // where the mapping is now; 0: nowhere
};

// Changes on their way to the cache. put() may be called from anywhere, even from within malloc()
// or munmap() by a thread that holds the cache's lock: it takes no lock, does not wait and
// allocates nothing. Changes that do not fit become one change of all memory.
class Inbox {
  public:
    void put(const MemoryChange& change) {
        uint64_t ticket = next_.load(std::memory_order_relaxed);
        do {
            // Signed, because an outdated ticket may be less than `taken`.
            const uint64_t taken = taken_.load(std::memory_order_acquire);
            if (static_cast<int64_t>(ticket - taken) >= int64_t{kSlots}) {
                overflow_.store(true, std::memory_order_seq_cst);
                return;
            }
        } while (!next_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_seq_cst));
        Slot& slot = slots_[ticket % kSlots];
        slot.change = change;
        slot.full.store(ticket + 1, std::memory_order_release);
    }

    // A thread that sees that changes were taken out also sees what take_all() did before.
    bool empty() const {
        return taken_.load(std::memory_order_acquire) == next_.load(std::memory_order_seq_cst) &&
               !overflow_.load(std::memory_order_seq_cst);
    }

    // Takes out all changes, in order. One thread at a time. False: a change is just being put in.
    template <class Handle>
    bool take_all(Handle&& handle) {
        if (overflow_.exchange(false, std::memory_order_seq_cst))
            handle(MemoryChange{0, UINT64_MAX, true, true});
        for (;;) {
            const uint64_t ticket = taken_.load(std::memory_order_relaxed);
            Slot& slot = slots_[ticket % kSlots];
            if (slot.full.load(std::memory_order_acquire) != ticket + 1)
                return ticket == next_.load(std::memory_order_seq_cst);
            const MemoryChange change = slot.change;
            taken_.store(ticket + 1, std::memory_order_release);
            handle(change);
        }
    }

  private:
    static constexpr unsigned kSlots = 256;
    struct Slot {
        std::atomic<uint64_t> full{0};  // ticket + 1, once `change` is written
        MemoryChange change;
    };
    std::atomic<uint64_t> next_{0};
    std::atomic<uint64_t> taken_{0};
    std::atomic<bool> overflow_{false};
    std::array<Slot, kSlots> slots_;
};

enum class MonitorKind : uint8_t { kAuto, kOdp, kUserfaultfd, kUcm, kNone };

// By kind; for UCX, which reads the setting.
inline constexpr const char* kMonitorNames[] = {"auto", "odp",  "userfaultfd",
                                                "ucm",  "none", nullptr};
inline const char* monitor_name(MonitorKind kind) {
    return kMonitorNames[static_cast<size_t>(kind)];
}

// Reports memory that has lost its pages: puts changes into the inbox that it was made with, from
// any thread. The functions here are called under the lock of the cache, except kind() and those
// that say "for any thread".
class Monitor {
  public:
    virtual ~Monitor() = default;
    virtual MonitorKind kind() const = 0;
    // True: every change of this memory is reported from now on. False: its pins must not be kept
    // after use.
    virtual bool watch(uint64_t start, uint64_t end) = 0;
    // After watch() has returned false: this memory could be watched at another time.
    virtual bool not_now() const { return false; }
    // The cache has handled this change. Memory that is mapped there later has to be watched anew.
    virtual void changed(const MemoryChange& change) = 0;
    // Whether every change that began before this call is in the inbox. For any thread.
    virtual bool settled() = 0;
    // As settled(), for changes that ended before this call; cheaper.
    virtual bool quiet() { return settled(); }
    // Whether only hooks report changes of this memory, so that the cache must act on their report.
    virtual bool needs_hook(uint64_t, uint64_t) const { return true; }
    // A hook reports that this memory is about to change. Returns whether the change must be put
    // into the inbox. For any thread, whatever locks it holds.
    virtual bool on_announced(uint64_t, uint64_t) { return true; }
    // A hook reports that a change of some memory begins, after on_announced(), or has ended. For
    // any thread, whatever locks it holds.
    virtual void change_begins() {}
    virtual void change_ends() {}
    // Whether a change of some memory has begun and not ended, as far as hooks tell.
    virtual bool under_way() const { return false; }
};

// Reports nothing itself. kNone: nothing is remembered. kOdp: the device follows the page tables.
// kUcm: the owner of the cache has hooks that are called before changes, and reports them by
// PinCache::unmapped().
class SilentMonitor final : public Monitor {
  public:
    explicit SilentMonitor(MonitorKind kind) : kind_(kind) {}
    MonitorKind kind() const override { return kind_; }
    bool watch(uint64_t, uint64_t) override { return kind_ != MonitorKind::kNone; }
    void changed(const MemoryChange&) override {}
    bool settled() override { return true; }

  private:
    const MonitorKind kind_;
};

// What a monitor can be made of.
struct MonitorMeans {
    bool on_demand = false;  // the device has on-demand paging for the operations needed
    bool has_hooks = false;  // the owner of the cache can call PinCache::unmapped()
    bool hooks_see_all =
        false;  // and does so for all memory, whichever function of libc changes it
};

// Makes the wanted monitor, or the best one for kAuto; one of kNone if that is not available. With
// kAuto, hooks report the changes that the kernel does not. `notify`: see
// UserfaultSource::Subscriber.
std::unique_ptr<Monitor> make_monitor(MonitorKind wanted, const MonitorMeans& means, Inbox& inbox,
                                      std::function<void()> notify);

}  // namespace tern
