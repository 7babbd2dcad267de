// SPDX-License-Identifier: BSD-3-Clause

// Sleeping until something comes.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fastpath/engine.h"

namespace tern {

// One descriptor for both queues' events and for the handshake's retransmissions.
int Engine::event_fd(std::string& why) {
    if (epoll_fd_ >= 0) return epoll_fd_;
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    bool good = epoll >= 0 && timer >= 0;
    for (const int fd : {timer, events_->fd, connector_->datagrams().event_fd(),
                         connector_->datagrams().aside_fd()})
        good = good && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
    if (watched_fd_ >= 0) good = good && epoll_ctl(epoll, EPOLL_CTL_ADD, watched_fd_, &event) == 0;
    if (!good) {
        why = std::string("cannot make an event descriptor: ") + strerror(errno);
        if (epoll >= 0) close(epoll);
        if (timer >= 0) close(timer);
        return -1;
    }
    epoll_fd_ = epoll;
    timer_fd_ = timer;
    return epoll_fd_;
}

Status Engine::arm() {
    // UCP arms interfaces that it does not use yet, and never again unless its user wants to sleep.
    // Who does sleep gets no more blocks without notification: a block cannot wake anybody.
    if (counters_.received_cold + counters_.received_hot != 0) sleeper_ = true;
    // Blocks that are polled in memory are asked back first: their senders' releases come by the
    // queue.
    if (!polled_.empty()) {
        for (const Polled& polled : polled_) revoke(*polled.channel);
        pay();
        return Status::kInProgress;
    }
    if (!owing_.empty() || connector_->reapable() || late_.waits() ||
        connector_->datagrams_waiting() || drain_events())
        return Status::kInProgress;
    if (ibv_req_notify_cq(cq_.get(), 0) != 0) return Status::kDevice;
    if (!connector_->datagrams().arm()) return Status::kInProgress;
    if (late_.take(cq_.get())) return Status::kInProgress;
    set_timer();
    return Status::kOk;
}

// Takes the events off the descriptor. True if there were any.
bool Engine::drain_events() {
    bool any = false;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(events_.get(), &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        any = true;
    }
    uint64_t expirations = 0;
    if (timer_fd_ >= 0 && ::read(timer_fd_, &expirations, sizeof(expirations)) > 0) any = true;
    return any;
}

void Engine::set_timer() {
    if (timer_fd_ < 0) return;
    itimerspec timer{};
    const uint64_t deadline = connector_->deadline();
    if (deadline != UINT64_MAX) {
        timer.it_value.tv_sec = static_cast<time_t>(deadline / 1'000'000'000);
        timer.it_value.tv_nsec = static_cast<long>(deadline % 1'000'000'000);
        if (deadline == 0) timer.it_value.tv_nsec = 1;
    }
    (void)timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &timer, nullptr);
}

}  // namespace tern
