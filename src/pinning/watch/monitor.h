// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "pinning/watch/inbox.h"

namespace tern {

enum class MonitorKind : uint8_t { kAuto, kOdp, kUserfaultfd, kUcm, kNone };

const char* monitor_name(MonitorKind kind);

// Tells that memory has lost its pages. Any thread may put changes into the inbox that the monitor
// was made with. The functions here are called under the lock of the cache, unless they say that
// any thread may call them, and except kind().
class Monitor {
  public:
    // Whether the cache has a pin of some of this memory that is found, or may be soon.
    using Pinned = std::function<bool(uint64_t start, uint64_t end)>;

    virtual ~Monitor() = default;
    virtual MonitorKind kind() const = 0;
    // True: every change of this memory is told from now on. False: pins of it must not be
    // remembered beyond the transfer.
    virtual bool watch(uint64_t start, uint64_t end) = 0;
    // The cache knows of this change now. Memory that is mapped there next has to be watched anew.
    virtual void changed(const MemoryChange& change) = 0;
    // Whether every change that began before this call is in the inbox. For any thread. May be
    // false until settle() has been called.
    virtual bool settled() = 0;
    // The same, under the lock. `pinned`: see above.
    virtual bool settle(const Pinned&) { return settled(); }
    // Changes have been taken out of the inbox, and pins of their memory are not found any more. Or
    // there will be a new pin, and what was told before does not matter to it.
    virtual void review(const Pinned&) {}
    // The same for changes that ended before this call; cheaper.
    virtual bool quiet() { return settled(); }
    // Whether a change of this memory that the owner tells is news to the cache.
    virtual bool hears(uint64_t, uint64_t) const { return true; }
    // The owner tells that this memory is about to change. False: that is no news to the cache. For
    // any thread, whatever locks it holds.
    virtual bool hear(uint64_t, uint64_t) { return true; }
    // The owner tells that a change of some memory, which may have been told by hear(), begins, and
    // that one has ended. For any thread, whatever locks it holds.
    virtual void change_begins() {}
    virtual void change_ends() {}
};

// No monitor: nothing is remembered.
class NoMonitor final : public Monitor {
  public:
    MonitorKind kind() const override { return MonitorKind::kNone; }
    bool watch(uint64_t, uint64_t) override { return false; }
    void changed(const MemoryChange&) override {}
    bool settled() override { return true; }
};

// The device follows the page tables by itself.
class OdpMonitor final : public Monitor {
  public:
    MonitorKind kind() const override { return MonitorKind::kOdp; }
    bool watch(uint64_t, uint64_t) override { return true; }
    void changed(const MemoryChange&) override {}
    bool settled() override { return true; }
};

// The owner of the cache learns of changes before they happen, and passes them on by
// PinCache::unmapped().
class ExternalMonitor final : public Monitor {
  public:
    MonitorKind kind() const override { return MonitorKind::kUcm; }
    bool watch(uint64_t, uint64_t) override { return true; }
    void changed(const MemoryChange&) override {}
    bool settled() override { return true; }
};

struct MonitorMeans {
    bool on_demand = false;    // the device has on-demand paging for the operations needed
    bool owner_hears = false;  // the owner of the cache can call PinCache::unmapped()
    bool of_all = false;       // and does so for all memory, whichever function of libc changes it
};

// Makes the wanted monitor, or the best one for kAuto; a NoMonitor if that is not available. With
// kAuto, the owner tells what the kernel does not.
// `told`: see UserfaultSource::Subscriber.
std::unique_ptr<Monitor> make_monitor(MonitorKind wanted, const MonitorMeans& means, Inbox& inbox,
                                      std::function<void()> told);

}  // namespace tern
