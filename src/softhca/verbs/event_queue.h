// SPDX-License-Identifier: BSD-3-Clause
// Events behind a file descriptor that programs may poll: the completion channels and the
// asynchronous events.
#pragma once

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>

namespace softhca {

/// The descriptor is readable while events wait. It may be set non-blocking by the program.
template <typename Event>
class EventQueue {
  public:
    EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
    ~EventQueue() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    EventQueue(const EventQueue&) = delete;
    EventQueue& operator=(const EventQueue&) = delete;

    int fd() const { return fd_; }

    void put(const Event& event) {
        {
            const std::lock_guard lock(mutex_);
            events_.push_back(event);
        }
        const uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
    }

    /// Waits for an event as the descriptor's mode says. False with errno set when there is none.
    /// `taken(event)` runs under the queue's lock: whoever removes an object's events afterwards
    /// knows of this one.
    template <typename Taken>
    bool take(Event* event, Taken&& taken) {
        for (;;) {
            uint64_t one;
            const ssize_t got = read(fd_, &one, sizeof one);
            if (got != sizeof one) {
                return false;
            }
            const std::lock_guard lock(mutex_);
            if (!events_.empty()) {  // else removed since it was announced
                *event = events_.front();
                events_.pop_front();
                taken(*event);
                return true;
            }
        }
    }

    /// Removes the events for which `matches(event)` holds. Announcements already counted are taken
    /// back where possible.
    template <typename Matches>
    void remove_if(Matches&& matches) {
        const std::lock_guard lock(mutex_);
        const size_t removed = std::erase_if(events_, matches);
        for (size_t i = 0; i < removed; ++i) {
            take_announcement_back();
        }
    }

  private:
    void take_announcement_back() {
        // A reader may have taken the announcement and be waiting for the lock; then there is
        // nothing to take back, and nothing to wait for.
        uint64_t one;
        iovec buffer{&one, sizeof one};
        [[maybe_unused]] const ssize_t got = preadv2(fd_, &buffer, 1, -1, RWF_NOWAIT);
    }

    int fd_;
    std::mutex mutex_;
    std::deque<Event> events_;
};

}  // namespace softhca
