// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>

#include "tern/pinning/watch/monitor.h"
#include "tern/pinning/watch/userfault_source.h"
#include "tern/pinning/watch/watched_ranges.h"

namespace tern {

// The kernel reports changes. Memory is registered with a userfaultfd in write-protect mode and
// never protected: no access faults, but munmap(), mremap() and madvise() of the memory send an
// event, and do not return before the event has been read. Mappings are registered as a whole, and
// stay so while they are mapped: the kernel does not merge a registered mapping with one that is
// not, and refuses to mremap() several at a time.
//
// A find() after the change must not return pins that were made before the change:
// - The reader sets a flag before it reads an event, and clears it when the event is in the inbox.
//   A thread that has returned from munmap() and calls find() sees the flag, or the event in the
//   inbox.
// - Another thread may be given the same addresses before munmap() returns to the first. The kernel
//   counts the change as under way from before the pages go until the event has been read. During
//   this time it refuses to change protections, with EAGAIN. So settled() asks for such a change,
//   of no memory.
// - madvise(MADV_DONTNEED) sends its event before the pages go. That is an early change: see
//   Quarantine.
//
// The kernel sends no event about fork() (requesting one takes a privilege). It ends the watch in
// the child, where this object does nothing.
class UserfaultMonitor final : public Monitor {
  public:
    // Null: there can be no monitor. `notify`: see UserfaultSource::Subscriber.
    static std::unique_ptr<UserfaultMonitor> create(Inbox& inbox, std::function<void()> notify);
    ~UserfaultMonitor() override { source_->unsubscribe(&subscriber_); }

    MonitorKind kind() const override { return MonitorKind::kUserfaultfd; }
    bool watch(uint64_t start, uint64_t end) override;
    bool not_now() const override { return not_now_; }
    void changed(const MemoryChange& change) override;
    bool settled() override { return source_->settled(); }
    bool quiet() override { return source_->quiet(); }

  private:
    static constexpr int kGrowths = 4;  // of a mapping, while it is being registered

    UserfaultMonitor(std::shared_ptr<UserfaultSource> source, Inbox& inbox,
                     std::function<void()> notify)
        : source_(std::move(source)), subscriber_{inbox, std::move(notify)} {}

    std::shared_ptr<UserfaultSource> source_;
    UserfaultSource::Subscriber subscriber_;
    bool not_now_ = false;
    WatchedRanges ranges_;  // watched, or gone by a change that is not handled yet
};

}  // namespace tern
