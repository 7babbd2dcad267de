// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>

#include "pinning/fork.h"
#include "pinning/monitor.h"
#include "pinning/watched_ranges.h"

namespace tern {

// The kernel tells. Memory is registered with a userfaultfd in write-protect mode and never
// protected: nothing ever faults, but munmap(), mremap() and madvise() of it send an event, and do
// not return before that has been read.
//
// A find() after the change must not find what was pinned before it:
// - The reader is marked as busy before it reads an event, until the event is in the inbox. Whoever
//   returned from munmap() and calls find() sees the mark or the event in the inbox.
// - Another thread may be given the same addresses before munmap() returns to the first. From
// before
//   the pages go until the event was read the kernel counts the change as under way, and refuses to
//   change protections with EAGAIN. So settled() asks for such a change, of nothing.
// - madvise(MADV_DONTNEED) sends its event before the pages go. That is an early change: see
//   PinCache::quarantined().
//
// The reader waits for nobody, above all for no lock, and calls neither malloc() nor free(). So who
// holds the lock of the cache may do both, and unmap watched memory by it: the event will be read.
//
// No event tells of fork() (asking for it takes a privilege): the kernel ends the watch in the
// child, where this object does nothing.
class UserfaultMonitor final : public Monitor {
  public:
    // Null if the kernel, its settings or a filter of system calls do not allow it. `told` is
    // called by the reader when there is something in the inbox; it may not allocate, lock or wait.
    static std::unique_ptr<UserfaultMonitor> create(Inbox& inbox, std::function<void()> told);
    ~UserfaultMonitor() override;

    MonitorKind kind() const override { return MonitorKind::kUserfaultfd; }
    bool watch(uint64_t start, uint64_t end) override;
    void changed(const MemoryChange& change) override;
    bool settled() override;

  private:
    // Every range may split a mapping in three; the kernel allows 65530 of these to a process.
    static constexpr size_t kMostRanges = 8192;

    UserfaultMonitor(Inbox& inbox, std::function<void()> told)
        : inbox_(inbox), told_(std::move(told)) {}

    bool open();
    bool start();
    bool register_range(uint64_t start, uint64_t end) const;
    bool unregister_range(uint64_t start, uint64_t end) const;
    void give_up_one();
    void run();
    bool read_events();
    void close_descriptors();

    ForkGuard guard_;
    Inbox& inbox_;
    const std::function<void()> told_;
    WatchedRanges ranges_;      // watched, or about to be told to be gone
    WatchedRanges registered_;  // these and what else the kernel may send events of
    uint64_t given_up_ = 0;
    int fd_ = -1;
    int stop_fd_ = -1;
    pthread_t reader_{};
    bool running_ = false;
    bool failed_ = false;
    std::atomic<bool> busy_{false};
};

}  // namespace tern
