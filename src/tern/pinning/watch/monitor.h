// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "tern/pinning/watch/inbox.h"

namespace tern {

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
