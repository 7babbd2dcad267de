// SPDX-License-Identifier: BSD-3-Clause

// Sleeping until an event.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/engine_poll.h"
#include "engine/engine_send.h"

namespace tern {

// One descriptor for the events of both completion queues, for retransmissions of the handshake,
// and for changes of watched words.
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
    // The device's asynchronous events, read by this interface or by another one that shares it.
    if (device_events_)
        for (const int fd : {device_events_->device_fd(), device_events_->fd()})
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

// Does not wait for peers. A write into a polled block raises no event, so the writer is told to
// notify. It may have read its notify word just before: the block is watched until the writer's
// notifications show that it has seen the new value.
Status Engine::arm(const std::vector<Watched>& also) {
    if (take_device_events()) return Status::kInProgress;
    const bool woken = watch_.withdraw();
    sleeper_ = true;
    patience_ = 0;
    awake_ = 0;
    // If there is no room, the completions that make room end the sleep.
    send_due_control();
    if (call_for_credit()) return Status::kInProgress;
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
    // Connections accepted from now on make the descriptor readable.
    connector_->adopt();
    connector_->look_at_deadlines();
    watched_.insert(watched_.end(), also.begin(), also.end());
    watch_.publish(watched_);
    set_timer();
    ++counters_.sleeps;
    return Status::kOk;
}

// Asks the readers of full blocks for frames, because a write to a credit word wakes no sleeper.
// True: what has found no room may find it now.
bool Engine::call_for_credit() {
    bool room = false;
    std::erase_if(stalled_channels_, [&](Channel* channel) {
        const bool stalls = channel->stalled && !channel->failed;
        if (stalls && channel->tx.hot()) {
            if (take_credit(*channel))
                room = true;
            else if (!channel->called && channel->words.at != nullptr)
                schedule_control(*channel, Channel::kCreditRequestDue);
            return false;
        }
        // The block has been released, so sends go cold.
        room = room || stalls;
        channel->stalled = channel->listed_stalled = false;
        return true;
    });
    send_due_control();
    return room;
}

// Tells the writers of polled blocks to notify, and collects the words that must be watched
// nevertheless. False: there is a frame in a block.
bool Engine::look_at_blocks() {
    watched_.clear();
    for (Channel* polled : polled_) {
        Channel& channel = *polled;
        if (channel.telling != 0 || channel.always) continue;
        if (telling_ == UINT16_MAX) telling_ = 0;
        (void)tell(channel, ++telling_);
    }
    for (Channel* polled : polled_) {
        Channel& channel = *polled;
        if (channel.failed) continue;
        Word word;
        const ReceivePath::Look look = channel.rx.look(word);
        update_polled(channel);
        if (look != ReceivePath::Look::kNothing) return false;
        // It has stepped over a wrap.
        if (channel.rx.credit_due()) {
            schedule_control(channel, Channel::kCreditDue);
            return false;
        }
        // `word` may be a frame that waits for earlier cold frames.
        if (!channel.heeds && !channel.always) watched_.push_back({channel.rx.next(), word.raw()});
    }
    return true;
}

// Writes the peer's notify word. False: that is not possible now.
bool Engine::tell(Channel& channel, uint16_t telling) {
    if (channel.peer_words == 0 || channel.failed || !channel.up() || channel.sends.room() == 0)
        return false;
    const uint32_t word = notify::word(telling);
    if (!write_inline(channel, &word, sizeof(word), channel.peer_words, channel.peer_words_rkey,
                      false))
        return false;
    channel.telling = telling;
    channel.heeds = false;
    ++counters_.tellings;
    return true;
}

// Called at each poll while `sleeper_` is set. Peers are told to stop notifying only after kAwake
// polls: an interface that sleeps between any two messages need not write to its peers each time.
void Engine::awake() {
    (void)watch_.withdraw();
    // Makes poll() look into the completion queue.
    busy_ = ~0u;
    if (++awake_ < kAwake) return;
    awake_ = 0;
    sleeper_ = false;
    for (Channel* channel : polled_)
        if (channel->telling != 0 && !tell(*channel, 0) && !channel->failed) sleeper_ = true;
}

// True: there were events.
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
