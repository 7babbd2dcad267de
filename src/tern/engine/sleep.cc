// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/sleep.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tern/base/trace.h"
#include "tern/connection/connector.h"
#include "tern/engine/batches.h"
#include "tern/engine/channel_flush.h"
#include "tern/engine/completion_poller.h"
#include "tern/engine/control_frames.h"
#include "tern/engine/device_health.h"
#include "tern/engine/peer_blocks.h"
#include "tern/engine/poller.h"
#include "tern/engine/resources.h"

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

Sleep::Sleep(const EngineParts& parts)
    : cq_(parts.resources.cq.get()),
      events_(parts.resources.events.get()),
      control_(parts.control),
      peer_blocks_(parts.peer_blocks),
      polled_(parts.poller.polled_blocks()),
      budget_(parts.poller.budget()),
      completions_(parts.completions),
      batches_(parts.poller.batches()),
      connector_(parts.connector),
      health_(parts.health),
      flush_(parts.flush),
      notify_requests_(parts.requests) {}

// One descriptor for the events of both completion queues, for retransmissions of the handshake,
// for changes of watched words, and for the device's asynchronous events, read by this interface or
// by another one that shares it.
int Sleep::event_fd(std::string& why) {
    if (wake_.fd() < 0) {
        const int others[] = {events_->fd,
                              connector_.datagrams().event_fd(),
                              connector_.datagrams().aside_fd(),
                              watch_.wake_fd(),
                              health_.device_fd(),
                              health_.inbox_fd(),
                              other_fd_};
        (void)wake_.open(others, why);
    }
    return wake_.fd();
}

// Does not wait for peers. A write into a polled block raises no event, so the writer is asked to
// notify. It may have read its notify word just before: the block is watched until the writer's
// notifications show that it has seen the new value.
Status Sleep::arm(const std::vector<Watched>& also) {
    if (health_.take_events()) return Status::kInProgress;
    batches_.push_all();
    flush_.check_unused(connector_.now());
    const bool woken = watch_.withdraw();
    set_asleep(true);
    polls_ = 0;
    // If there is no room, the completions that make room end the sleep.
    control_.send_due();
    if (peer_blocks_.request_credit_frames()) return Status::kInProgress;
    if (drain_events() || woken || completions_.late().waits()) return Status::kInProgress;
    if (connector_.inbox().waits()) {
        budget_.make_seldom_due();
        return Status::kInProgress;
    }
    if (ibv_req_notify_cq(cq_, 0) != 0) return Status::kDevice;
    if (!connector_.datagrams().arm()) {
        budget_.make_seldom_due();
        return Status::kInProgress;
    }
    if (!nothing_is_left()) return Status::kInProgress;
    if (connector_.ended().may_destroy()) {
        budget_.make_seldom_due();
        return Status::kInProgress;
    }
    // Connections accepted from now on make the descriptor readable.
    connector_.adopt();
    connector_.look_at_deadlines();
    watched_.insert(watched_.end(), also.begin(), also.end());
    watch_.publish(watched_);
    wake_.set_deadline(connector_.deadline());
    ++sleeps_;
    TERN_TRACE("sleeps; %zu words are watched", watched_.size());
    return Status::kOk;
}

// What came before the request for an event raises none.
bool Sleep::nothing_is_left() {
    return !completions_.late().take(cq_) && look_at_blocks();
}

// Asks the writers of polled blocks to notify, and collects the words that must be watched
// nevertheless. False: there is a frame in a block.
bool Sleep::look_at_blocks() {
    watched_.clear();
    for (size_t i = 0; i < polled_.size(); ++i) notify_requests_.begin(polled_.at(i));
    for (size_t i = 0; i < polled_.size(); ++i) {
        Channel& channel = polled_.at(i);
        if (channel.failed) continue;
        Word word;
        const ReceivePath::Look look = channel.receiving.path.look(word);
        polled_.update(channel);
        if (look != ReceivePath::Look::kNothing) return false;
        // The look has stepped over a wrap, and so freed its place.
        if (channel.receiving.path.credit_due()) {
            control_.schedule(channel, Channel::kCreditDue);
            return false;
        }
        // `word` may be a frame that waits for earlier cold frames.
        if (!NotifyRequests::is_certain(channel))
            watched_.push_back({channel.receiving.path.next(), word.raw()});
    }
    return true;
}

void Sleep::wake() {
    polls_ = 0;
    bool all = true;
    for (size_t i = 0; i < polled_.size(); ++i) {
        Channel& channel = polled_.at(i);
        if (!notify_requests_.end(channel) && !channel.failed) all = false;
    }
    set_asleep(!all);
}

// The peer may have been asked to notify of an earlier block.
void Sleep::on_offer(Channel& channel) {
    if (!asleep_ && !notify_requests_.end(channel)) set_asleep(true);
}

void Sleep::set_asleep(bool asleep) {
    if (asleep) budget_.end();
    if (asleep == asleep_) return;
    asleep_ = asleep;
    if (asleep)
        budget_.begin_reason();
    else
        budget_.end_reason();
}

// True: there were events.
bool Sleep::drain_events() {
    bool any = false;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(events_, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        any = true;
    }
    return wake_.take_deadline() || any;
}

}  // namespace tern
