// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "pinning/watch/fork.h"
#include "pinning/watch/inbox.h"
#include "pinning/watch/watched_ranges.h"

namespace tern {

// The one userfaultfd of the process, because memory belongs to one at a time, and the thread that
// reads its events. Each subscriber gets all events.
//
// The reader does not wait, above all for no lock, and calls neither malloc() nor free(). So a
// thread that holds the lock of a cache, or of this object, may call both, and thereby unmap
// watched memory: the event will be read.
class UserfaultSource {
  public:
    struct Subscriber {
        Inbox& inbox;
        // Called by the reader when changes are in the inbox: may not allocate, lock or wait.
        std::function<void()> notify;
    };

    // Null: the kernel, its settings or a filter of system calls do not allow a userfaultfd.
    static std::shared_ptr<UserfaultSource> get();
    ~UserfaultSource();
    UserfaultSource(const UserfaultSource&) = delete;
    UserfaultSource& operator=(const UserfaultSource&) = delete;

    // False: there are too many subscribers.
    bool subscribe(Subscriber* subscriber);
    void unsubscribe(Subscriber* subscriber);

    // Has the kernel send events of this memory; it may do so already. False: impossible.
    bool begin(uint64_t start, uint64_t end);
    // Ends the events of this memory. Reports to the subscribers that it was unmapped.
    void end(uint64_t start, uint64_t end);
    // Updates the ranges whose events the destructor ends.
    void changed(const MemoryChange& change);

    // Whether every change of memory that began before this call is in the inboxes. A system call.
    // (Before Linux 5.15 the kernel does not count changes: it may miss one of several at a time.)
    bool settled() const;
    // The same for changes that ended before this call; no system call.
    bool quiet() const { return !reading_ && ending_ == 0; }

  private:
    static constexpr size_t kMostRanges = 16384;
    // Memory domains of a process: a simulation has one for each rank.
    static constexpr size_t kMostSubscribers = 256;

    UserfaultSource() = default;
    bool open();
    bool start();
    bool register_range(uint64_t start, uint64_t end) const;
    bool unregister_range(uint64_t start, uint64_t end) const;
    void run();
    bool read_events();
    void report(const MemoryChange& change);

    ForkGuard guard_;
    std::mutex mutex_;
    WatchedRanges registered_;  // memory that the kernel may send events of
    int fd_ = -1;
    int stop_fd_ = -1;
    pthread_t reader_{};
    bool running_ = false;
    bool failed_ = false;
    std::atomic<bool> reading_{false};
    std::atomic<int> ending_{0};
    std::array<std::atomic<Subscriber*>, kMostSubscribers> subscribers_{};
};

}  // namespace tern
