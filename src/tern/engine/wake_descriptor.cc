// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/wake_descriptor.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tern {

WakeDescriptor::~WakeDescriptor() {
    if (epoll_ >= 0) close(epoll_);
    if (timer_ >= 0) close(timer_);
}

bool WakeDescriptor::open(std::span<const int> others, std::string& why) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    bool good = epoll >= 0 && timer >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) == 0;
    for (const int fd : others)
        good = good && (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    if (!good) {
        why = std::string("cannot make an event descriptor: ") + strerror(errno);
        if (epoll >= 0) close(epoll);
        if (timer >= 0) close(timer);
        return false;
    }
    epoll_ = epoll;
    timer_ = timer;
    return true;
}

void WakeDescriptor::set_deadline(uint64_t deadline) {
    if (timer_ < 0 || (deadline == UINT64_MAX && !timer_is_set_)) return;
    timer_is_set_ = deadline != UINT64_MAX;
    itimerspec timer{};
    if (timer_is_set_) {
        timer.it_value.tv_sec = static_cast<time_t>(deadline / 1'000'000'000);
        timer.it_value.tv_nsec = static_cast<long>(deadline % 1'000'000'000);
        if (deadline == 0) timer.it_value.tv_nsec = 1;
    }
    (void)timerfd_settime(timer_, TFD_TIMER_ABSTIME, &timer, nullptr);
}

bool WakeDescriptor::take_deadline() {
    uint64_t expirations = 0;
    if (!timer_is_set_ || ::read(timer_, &expirations, sizeof(expirations)) <= 0) return false;
    timer_is_set_ = false;
    return true;
}

}  // namespace tern
