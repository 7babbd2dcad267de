// SPDX-License-Identifier: BSD-3-Clause

// Sleeping until something comes.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/engine.h"
#include "engine/engine_send.h"

namespace tern {

// One descriptor for both queues' events, for the handshake's retransmissions, and for what is
// found in memory.
int Engine::event_fd(std::string& why) {
    if (epoll_fd_ >= 0) return epoll_fd_;
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    bool good = epoll >= 0 && timer >= 0;
    for (const int fd : {timer, events_->fd, connector_->datagrams().event_fd(),
                         connector_->datagrams().aside_fd(), watch_.wake_fd()})
        good = good && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
    // What the device tells, to this interface or another one that shares it.
    if (news_)
        for (const int fd : {news_->device_fd(), news_->fd()})
            good = good && (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
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

// Of what peers do nothing is waited for. A block that is polled wakes nobody, so its writer is
// told to notify of what it writes. It may have looked for that just before: until its writes have
// shown that it knows, somebody looks at the block.
Status Engine::arm(const std::vector<Watched>& also) {
    if (hear_news()) return Status::kInProgress;
    const bool woken = watch_.withdraw();
    sleeper_ = true;
    awake_ = 0;
    // What there is no room for has completions to come that make room.
    send_due_control();
    if (drain_events() || woken || late_.waits()) return Status::kInProgress;
    if (connector_->datagrams_waiting()) {
        idle_ = kSeldom;
        return Status::kInProgress;
    }
    if (ibv_req_notify_cq(cq_.get(), 0) != 0) return Status::kDevice;
    if (!connector_->datagrams().arm()) {
        idle_ = kSeldom;
        return Status::kInProgress;
    }
    if (late_.take(cq_.get()) || !look_at_blocks() || connector_->may_destroy_closed())
        return Status::kInProgress;
    // Who is accepted from now on makes the descriptor readable.
    connector_->adopt();
    connector_->look_at_deadlines();
    watched_.insert(watched_.end(), also.begin(), also.end());
    watch_.publish(watched_);
    set_timer();
    ++counters_.sleeps;
    return Status::kOk;
}

// Tells the writers of blocks that are polled, and collects the words that have to be looked at all
// the same. False: there is something in a block.
bool Engine::look_at_blocks() {
    watched_.clear();
    for (const Polled& polled : polled_) {
        Channel& channel = *polled.channel;
        if (channel.telling != 0 || channel.always) continue;
        if (telling_ == UINT16_MAX) telling_ = 0;
        (void)tell(channel, ++telling_);
    }
    for (Polled& polled : polled_) {
        Channel& channel = *polled.channel;
        if (channel.failed) continue;
        Word word;
        const ReceivePath::Look look = channel.rx.look(word);
        polled.next = channel.rx.next();
        if (look != ReceivePath::Look::kNothing) return false;
        // A frame that waits for cold ones may be there.
        if (!channel.heeds && !channel.always) watched_.push_back({polled.next, word.raw()});
    }
    return true;
}

// False: it cannot be told now.
bool Engine::tell(Channel& channel, uint16_t telling) {
    if (channel.peer_word == 0 || channel.failed || !channel.up() || channel.sends.room() == 0)
        return false;
    const uint32_t word = notify::word(telling);
    if (!write_inline(channel, &word, sizeof(word), channel.peer_word, channel.peer_word_rkey,
                      false))
        return false;
    channel.telling = telling;
    channel.heeds = false;
    ++counters_.tellings;
    return true;
}

// At each poll by who has slept not long ago. Peers are told again only if it stays awake for a
// good while: who sleeps between any two messages writes to nobody.
void Engine::awake() {
    (void)watch_.withdraw();
    // It looks into the completion queue each time: see poll().
    busy_ = skipped_ = ~0u;
    if (++awake_ < kAwake) return;
    awake_ = 0;
    sleeper_ = false;
    for (const Polled& polled : polled_)
        if (polled.channel->telling != 0 && !tell(*polled.channel, 0) && !polled.channel->failed)
            sleeper_ = true;
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
    if (timer_set_ && ::read(timer_fd_, &expirations, sizeof(expirations)) > 0) {
        timer_set_ = false;
        any = true;
    }
    return any;
}

void Engine::set_timer() {
    const uint64_t deadline = connector_->deadline();
    if (timer_fd_ < 0 || (deadline == UINT64_MAX && !timer_set_)) return;
    timer_set_ = deadline != UINT64_MAX;
    itimerspec timer{};
    if (timer_set_) {
        timer.it_value.tv_sec = static_cast<time_t>(deadline / 1'000'000'000);
        timer.it_value.tv_nsec = static_cast<long>(deadline % 1'000'000'000);
        if (deadline == 0) timer.it_value.tv_nsec = 1;
    }
    (void)timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &timer, nullptr);
}

}  // namespace tern
