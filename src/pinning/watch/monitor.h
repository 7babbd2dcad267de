// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "pinning/watch/inbox.h"

namespace tern {

enum class MonitorKind : uint8_t { kAuto, kOdp, kUserfaultfd, kUcm, kNone };

const char* monitor_name(MonitorKind kind);

// Who tells that memory has lost its pages. Changes are put into the inbox that the monitor was
// made with, by whatever thread; everything here is called under the lock of the
// cache.
class Monitor {
  public:
    virtual ~Monitor() = default;
    virtual MonitorKind kind() const = 0;
    // Whether every change of this memory will be told from now on. If not, nothing of it may be
    // remembered beyond the transfer.
    virtual bool watch(uint64_t start, uint64_t end) = 0;
    // Of this change the cache knows now. What is mapped there next has to be watched anew.
    virtual void changed(const MemoryChange& change) = 0;
    // Whether every change that began before this call is in the inbox.
    virtual bool settled() = 0;
    // The same of what ended before this call; cheaper.
    virtual bool quiet() { return settled(); }
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

// The owner of the cache hears of the changes, and passes them on by PinCache::unmapped(), before
// they happen.
class ExternalMonitor final : public Monitor {
  public:
    MonitorKind kind() const override { return MonitorKind::kUcm; }
    bool watch(uint64_t, uint64_t) override { return true; }
    void changed(const MemoryChange&) override {}
    bool settled() override { return true; }
};

struct MonitorMeans {
    bool on_demand = false;    // the device has on-demand paging for what is needed
    bool owner_hears = false;  // the owner of the cache can be an ExternalMonitor's source
};

// The one that is wanted, or the best there is; one that nothing is remembered with if it cannot be
// had. `told`: see UserfaultMonitor::create().
std::unique_ptr<Monitor> make_monitor(MonitorKind wanted, const MonitorMeans& means, Inbox& inbox,
                                      std::function<void()> told);

}  // namespace tern
