// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "tern/base/tunables.h"
#include "tern/pinning/watch/fork.h"
#include "tern/pinning/watch/monitor.h"
#include "tern/pinning/watch/watched_ranges.h"

namespace tern {

// Finds mappings that change too often to be watched: a call of the program that changes watched
// memory waits until the event about it has been read. Such a mapping is not watched for a while,
// and each time for twice as long.
class NoisyMappings {
  public:
    using Clock = std::chrono::steady_clock;
    using Time = Clock::time_point;

    static constexpr auto kWindow = std::chrono::seconds(1);
    static constexpr auto kLongest = std::chrono::hours(1);

    void allow(unsigned most) { most_ = most; }
    // Counts a change of a mapping. True: it must not be watched from now on.
    bool count(uint64_t start, uint64_t end, Time now) {
        Entry& entry = entry_of(start, end, now);
        if (entry.changes == 0 || now - entry.since > kWindow) {
            entry.since = now;
            entry.changes = 0;
        }
        if (++entry.changes <= most_) return false;
        entry.changes = 0;
        entry.quiet = entry.quiet == Clock::duration{}
                          ? Clock::duration{std::chrono::seconds(kNoisyTime)}
                          : std::min<Clock::duration>(2 * entry.quiet, kLongest);
        entry.until = now + entry.quiet;
        return true;
    }
    // Whether some of this memory must not be watched now.
    bool has(uint64_t start, uint64_t end, Time now) const {
        return std::ranges::any_of(entries_, [&](const Entry& entry) {
            return entry.until > now && entry.start < end && start < entry.end;
        });
    }

  private:
    struct Entry {
        uint64_t start = 0;
        uint64_t end = 0;
        unsigned changes = 0;
        Time since{};
        Time until{};
        Clock::duration quiet{};
    };

    Entry& entry_of(uint64_t start, uint64_t end, Time now) {
        Entry* oldest = entries_.data();
        for (Entry& entry : entries_) {
            if (entry.start < end && start < entry.end) {
                // Until its time is over, what is not watched stays so. Then what was around the
                // mapping may be others'.
                const bool kept = entry.until > now;
                entry.start = kept ? std::min(entry.start, start) : start;
                entry.end = kept ? std::max(entry.end, end) : end;
                return entry;
            }
            if (last_use(entry) < last_use(*oldest)) oldest = &entry;
        }
        *oldest = {.start = start, .end = end, .since = now};
        return *oldest;
    }
    static Time last_use(const Entry& entry) { return std::max(entry.since, entry.until); }

    unsigned most_ = kNoisyChanges;
    std::array<Entry, 64> entries_{};
};

// The one userfaultfd of the process, because memory belongs to one at a time, and the thread that
// reads its events. Each subscriber gets all events.
//
// The reader does not wait, above all for no lock, and calls neither malloc() nor free(), from when
// the first memory is watched until it has read the last event. So a thread that holds the lock of
// a cache, or of this object, may call both, and thereby unmap watched memory: the event will be
// read.
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

    // Whether this memory must not be watched now: it changes too often, or the process watches as
    // many mappings as it may. One of several calls for the latter reason is allowed, and begin()
    // then gives another mapping up: new ones come in turn, however many there are.
    bool refuses(uint64_t start, uint64_t end);
    // Has the kernel send events of these mappings; it may do so already. They must be whole: a
    // part would be split off, and the kernel refuses to mremap() both at a time. False:
    // impossible.
    bool begin(const Mappings& whole);
    // Handles the events that have been read: stops watching mappings that change too often, which
    // are reported as unmapped.
    void progress();

    // Bounds the number of mappings that are watched at a time.
    size_t most() const { return most_; }
    // Nothing can be watched: the thread that reads the events cannot be started.
    bool has_failed() {
        const std::lock_guard lock(mutex_);
        return failed_;
    }
    size_t watched();
    // How many changes a second a mapping may have.
    void allow_changes(unsigned most);

    // Whether every change of memory that began before this call is in the inboxes. A system call.
    // (Before Linux 5.15 the kernel does not count changes: it may miss one of several at a time.)
    bool settled() const;
    // Whether every change that ended before this call is in the inboxes. No system call.
    bool quiet() const { return !reading_ && ending_ == 0; }

  private:
    // Memory domains of a process: a simulation has one for each rank.
    static constexpr size_t kMostSubscribers = 256;

    UserfaultSource() = default;
    bool open();
    bool start();
    bool register_range(uint64_t start, uint64_t end) const;
    bool unregister_range(uint64_t start, uint64_t end) const;
    void run();
    void close_events();
    bool read_events();
    void report(const MemoryChange& change);
    void handle(const MemoryChange& change);
    void end(uint64_t start, uint64_t end);

    ForkGuard guard_;
    std::mutex mutex_;
    // Under the lock, up to turn_:
    WatchedRanges registered_;  // memory that the kernel may send events of
    NoisyMappings noisy_;
    size_t most_ = kMostWatched;  // also a 16th of those that the kernel allows
    unsigned refused_ = 0;
    bool told_ = false;  // that memory is watched in turn
    uint64_t turn_ = 0;  // where the next mapping that is given up begins, or later
    Inbox events_;       // that registered_ does not have yet
    int fd_ = -1;
    int stop_fd_ = -1;
    pthread_t reader_{};
    bool running_ = false;
    bool failed_ = false;
    std::atomic<bool> reads_{false};  // the reader has begun
    std::atomic<bool> reading_{false};
    std::atomic<int> ending_{0};
    std::array<std::atomic<Subscriber*>, kMostSubscribers> subscribers_{};
};

}  // namespace tern
