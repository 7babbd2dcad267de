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

// The one userfaultfd of the process, for memory belongs to one at a time, and the thread that
// reads its events. All who subscribe are told of all of them.
//
// The reader waits for nobody, above all for no lock, and calls neither malloc() nor free(). So who
// holds the lock of a cache, or this one's, may do both, and unmap watched memory by it: the event
// will be read.
class UserfaultSource {
  public:
    struct Subscriber {
        Inbox& inbox;
        // There is something in the inbox. Called by the reader: may not allocate, lock or wait.
        std::function<void()> told;
    };

    // Null if the kernel, its settings or a filter of system calls do not allow it.
    static std::shared_ptr<UserfaultSource> get();
    ~UserfaultSource();
    UserfaultSource(const UserfaultSource&) = delete;
    UserfaultSource& operator=(const UserfaultSource&) = delete;

    // False if there are too many.
    bool subscribe(Subscriber* subscriber);
    void unsubscribe(Subscriber* subscriber);

    // Has events of this memory sent, which may be already so. False if that is impossible.
    bool begin(uint64_t start, uint64_t end);
    // No more events of this memory: to everybody it is as if it was unmapped.
    void end(uint64_t start, uint64_t end);
    // For what is to be ended in the end.
    void changed(const MemoryChange& change);

    // Whether every change of memory that began before this call is in the inboxes. A system call.
    // (Before Linux 5.15 the kernel did not count changes: of several at a time it could miss one.)
    bool settled() const;
    // Whether every change that ended before this call is.
    bool quiet() const { return !reading_ && ending_ == 0; }

  private:
    static constexpr size_t kMostRanges = 16384;

    UserfaultSource() = default;
    bool open();
    bool start();
    bool register_range(uint64_t start, uint64_t end) const;
    bool unregister_range(uint64_t start, uint64_t end) const;
    void run();
    bool read_events();
    void tell(const MemoryChange& change);

    ForkGuard guard_;
    std::mutex mutex_;
    WatchedRanges registered_;  // what the kernel may send events of
    int fd_ = -1;
    int stop_fd_ = -1;
    pthread_t reader_{};
    bool running_ = false;
    bool failed_ = false;
    std::atomic<bool> reading_{false};
    std::atomic<int> ending_{0};
    std::array<std::atomic<Subscriber*>, 32> subscribers_{};
};

}  // namespace tern
