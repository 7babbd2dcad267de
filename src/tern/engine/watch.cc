// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/watch.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

namespace tern {

namespace {

bool read_all(int fd) {
    uint64_t count = 0;
    return read(fd, &count, sizeof(count)) > 0;
}

}  // namespace

Watch::~Watch() {
    if (found_fd_ >= 0) close(found_fd_);
    if (timer_fd_ >= 0) close(timer_fd_);
}

bool Watch::open() {
    found_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return found_fd_ >= 0 && timer_fd_ >= 0;
}

void Watch::publish(const std::vector<Watched>& words) {
    if (words.empty()) return;
    armed_ = true;
    const std::lock_guard lock(mutex_);
    // The interval goes on growing if something else has woken the owner, and the words are the
    // same.
    if (words != last_) interval_.reset();
    words_ = words;
    last_ = words;
    set_timer(interval_.value());
}

bool Watch::withdraw_armed() {
    armed_ = false;
    const std::lock_guard lock(mutex_);
    words_.clear();
    bool woken = found_;
    if (found_) (void)read_all(found_fd_);
    found_ = false;
    if (!threaded_) {
        if (read_all(timer_fd_)) {
            interval_.grow();
            woken = true;
        }
        // The timer must not wake an owner without words.
        set_timer(0);
    }
    return woken;
}

void Watch::look() {
    const std::lock_guard lock(mutex_);
    // The timer may have been set anew since it expired.
    if (!read_all(timer_fd_) || words_.empty() || found_) return;
    const auto changed = [](const Watched& word) {
        return __atomic_load_n(word.at, __ATOMIC_RELAXED) != word.was;
    };
    if (std::any_of(words_.begin(), words_.end(), changed)) {
        const uint64_t one = 1;
        found_ = true;
        (void)!write(found_fd_, &one, sizeof(one));
        return;
    }
    interval_.grow();
    set_timer(interval_.value());
}

void Watch::set_timer(uint64_t nanoseconds) const {
    itimerspec timer{};
    timer.it_value.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000);
    timer.it_value.tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000);
    (void)timerfd_settime(timer_fd_, 0, &timer, nullptr);
}

}  // namespace tern
