// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>

#include "pinning/watch/monitor.h"
#include "pinning/watch/userfault_source.h"
#include "pinning/watch/watched_ranges.h"

namespace tern {

// The kernel tells. Memory is registered with a userfaultfd in write-protect mode and never
// protected: nothing ever faults, but munmap(), mremap() and madvise() of it send an event, and do
// not return before that has been read.
//
// A find() after the change must not find what was pinned before it:
// - The reader is marked as reading before it reads an event, until the event is in the inbox.
//   Whoever returned from munmap() and calls find() sees the mark or the event in the inbox.
// - Another thread may be given the same addresses before munmap() returns to the first. From before
//   the pages go until the event was read, the kernel counts the change as under way, and refuses to
//   change protections with EAGAIN. So settled() asks for such a change, of nothing.
// - madvise(MADV_DONTNEED) sends its event before the pages go. That is an early change: see
//   PinCache::quarantined().
//
// No event tells of fork() (asking for it takes a privilege): the kernel ends the watch in the
// child, where this object does nothing.
class UserfaultMonitor final : public Monitor {
  public:
    // Null if there can be none. `told`: see UserfaultSource::Subscriber.
    static std::unique_ptr<UserfaultMonitor> create(Inbox& inbox, std::function<void()> told);
    ~UserfaultMonitor() override { source_->unsubscribe(&subscriber_); }

    MonitorKind kind() const override { return MonitorKind::kUserfaultfd; }
    bool watch(uint64_t start, uint64_t end) override;
    void changed(const MemoryChange& change) override;
    bool settled() override { return source_->settled(); }
    bool quiet() override { return source_->quiet(); }

  private:
    // Every range may split a mapping in three; the kernel allows 65530 of these to a process.
    static constexpr size_t kMostRanges = 8192;

    UserfaultMonitor(std::shared_ptr<UserfaultSource> source, Inbox& inbox,
                     std::function<void()> told)
        : source_(std::move(source)), subscriber_{inbox, std::move(told)} {}

    void give_up_one();

    std::shared_ptr<UserfaultSource> source_;
    UserfaultSource::Subscriber subscriber_;
    WatchedRanges ranges_;  // watched, or about to be told to be gone
    uint64_t given_up_ = 0;
};

}  // namespace tern
