// SPDX-License-Identifier: BSD-3-Clause
// Events behind a file descriptor that programs can poll: for completion channels and asynchronous
// events.
#pragma once

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <mutex>

namespace softhca {

// A queue of events. Its descriptor is readable while events wait; programs may set it
// non-blocking.
template <typename Event>
class EventQueue {
  public:
    EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
    ~EventQueue() {
        if (fd_ >= 0) close(fd_);
    }
    EventQueue(const EventQueue&) = delete;
    EventQueue& operator=(const EventQueue&) = delete;

    int fd() const { return fd_; }

    // Not a cancellation point, because the caller may hold locks of the fabric.
    void put(const Event& event) {
        {
            const std::lock_guard lock(mutex_);
            events_.push_back(event);
        }
        const uint64_t one = 1;
        [[maybe_unused]] const long written = syscall(SYS_write, fd_, &one, sizeof one);
    }

    // Takes an event; waits for one unless the descriptor is non-blocking. False with errno set if
    // there is none. Calls `taken(event)` under the queue's lock, so that a thread that
    // removes an object's events afterwards finds this one counted as taken.
    template <typename Taken>
    bool take(Event* event, Taken&& taken) {
        for (;;) {
            uint64_t one;
            const ssize_t got = read(fd_, &one, sizeof one);
            if (got != sizeof one) return false;
            const std::lock_guard lock(mutex_);
            if (!events_.empty()) {  // else removed after its announcement
                *event = events_.front();
                events_.pop_front();
                taken(*event);
                return true;
            }
        }
    }

    // Removes events for which `matches(event)` is true, and, where possible, their announcements.
    template <typename Matches>
    void remove_if(Matches&& matches) {
        const std::lock_guard lock(mutex_);
        const size_t removed = std::erase_if(events_, matches);
        for (size_t i = 0; i < removed; ++i) take_announcement_back();
    }

  private:
    void take_announcement_back() {
        // A reader may have read the announcement, and wait for the lock: then there is nothing to
        // read here, and no reason to wait.
        uint64_t one;
        iovec buffer{&one, sizeof one};
        [[maybe_unused]] const long got =
            syscall(SYS_preadv2, fd_, &buffer, 1, -1L, -1L, RWF_NOWAIT);
    }

    int fd_;
    std::mutex mutex_;
    std::deque<Event> events_;
};

}  // namespace softhca
