// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cm/watcher.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/blocked_signals.h"

namespace softhca::cm {

namespace {

constexpr uint64_t kTimerKey = 0;  // no identifier has it

int create_thread(void* (*body)(void*), void* argument) {
    const tern::base::BlockedSignals blocked;
    pthread_t thread;
    const int status = pthread_create(&thread, nullptr, body, argument);
    if (status == 0) pthread_detach(thread);
    return status;
}

}  // namespace

bool Watcher::start() {
    if (epoll_ >= 0) return true;
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kTimerKey;
    int error = 0;
    if (epoll_ < 0 || timer_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event) != 0)
        error = errno;
    else
        error = create_thread(thread_main, this);
    if (error == 0) return true;
    reset();
    errno = error;
    return false;
}

bool Watcher::watch(int fd, uint64_t key) {
    if (!start()) return false;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void Watcher::forget(int fd) {
    if (epoll_ >= 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

void Watcher::set_deadline(uint64_t key, Clock::duration after) {
    clear_deadline(key);
    const Clock::time_point when = Clock::now() + after;
    deadlines_.insert({when, key});
    deadline_of_[key] = when;
    arm_timer();
}

void Watcher::clear_deadline(uint64_t key) {
    const auto found = deadline_of_.find(key);
    if (found == deadline_of_.end()) return;
    deadlines_.erase({found->second, key});
    deadline_of_.erase(found);
    arm_timer();
}

void Watcher::reset() {
    if (epoll_ >= 0) ::close(epoll_);
    if (timer_ >= 0) ::close(timer_);
    epoll_ = -1;
    timer_ = -1;
    deadlines_.clear();
    deadline_of_.clear();
}

void Watcher::arm_timer() {
    using std::chrono::nanoseconds;
    if (timer_ < 0) return;
    itimerspec spec{};
    if (!deadlines_.empty()) {
        const auto wait = deadlines_.begin()->first - Clock::now();
        const int64_t ns = std::max<int64_t>(std::chrono::duration_cast<nanoseconds>(wait).count(),
                                             1);  // 0 would disarm it
        spec.it_value = {ns / 1'000'000'000, static_cast<long>(ns % 1'000'000'000)};
    }
    ::timerfd_settime(timer_, 0, &spec, nullptr);
}

void Watcher::expire() {
    while (!deadlines_.empty() && deadlines_.begin()->first <= Clock::now()) {
        const uint64_t key = deadlines_.begin()->second;
        clear_deadline(key);
        sink_.expired(key);
    }
    arm_timer();  // which also makes it unreadable
}

void Watcher::run() {
    constexpr int kEvents = 32;
    epoll_event events[kEvents];
    for (;;) {
        const int count = ::epoll_wait(epoll_, events, kEvents, -1);
        if (count < 0 && errno != EINTR) return;
        sink_.lock();
        for (int i = 0; i < count; ++i) {
            if (events[i].data.u64 == kTimerKey)
                expire();
            else
                sink_.readable(events[i].data.u64);
        }
        sink_.unlock();
    }
}

void* Watcher::thread_main(void* watcher) {
    prctl(PR_SET_NAME, "softhca-cm");
    static_cast<Watcher*>(watcher)->run();
    return nullptr;
}

}  // namespace softhca::cm
