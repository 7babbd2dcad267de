// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/channel_flush.h"

#include "tern/connection/connector.h"
#include "tern/engine/early_sends.h"
#include "tern/engine/owner.h"
#include "tern/engine/poll_budget.h"
#include "tern/engine/work_requests.h"

namespace tern {

Status ChannelFlush::flush(Channel& channel, const Waiter& waiter) {
    if (!channel.backlog.empty()) {
        if (waiter.cookie != nullptr) EarlySends::flush(channel, waiter);
        return Status::kInProgress;
    }
    // The losses of a failed channel are known once its send queue is idle.
    if (channel.failed && channel.sends.idle()) return channel.outcome();
    if (!channel.failed && channel.sends.users_idle()) return Status::kOk;
    if (!channel.sends.last_is_signaled() && !channel.failed &&
        !requests_.post_empty(channel, false))
        return Status::kNoResource;
    if (waiter.cookie != nullptr) channel.sends.wait(waiter);
    budget_.end();  // the completion will not be found in a block
    return Status::kInProgress;
}

Status ChannelFlush::flush_all() {
    Status status = Status::kOk;
    connector_.table().for_each([&](Connection& connection) {
        if (flush(static_cast<Channel&>(connection), {}) != Status::kOk)
            status = Status::kInProgress;
    });
    return status;
}

void ChannelFlush::cancel(Channel& channel, const void* user) {
    void* cookie = nullptr;
    while (channel.sends.drop_waiter(user, cookie) || channel.backlog.drop_flush(user, cookie))
        owner_.completed(cookie, Status::kCanceled);
}

bool ChannelFlush::is_connected(const PeerAddress& peer) const {
    return connector_.is_up(peer);
}

Status ChannelFlush::check_peer(Channel* channel, const PeerAddress& peer, void* user) {
    if (channel == nullptr || !channel->up())
        connector_.probe(peer, user);
    else if (channel->sends.takes_data())
        (void)requests_.post_empty(*channel, true);
    return Status::kOk;
}

Status ChannelFlush::check(Channel& channel, const Waiter& waiter) {
    if (channel.failed) return channel.status;
    if (!channel.established) {
        EarlySends::flush(channel, waiter);
        return Status::kInProgress;
    }
    // An outstanding work request that will be reported serves as well.
    if (!channel.sends.reports() && !requests_.post_empty(channel, true))
        return Status::kNoResource;
    channel.sends.wait(waiter);
    return Status::kInProgress;
}

// The loss of such a peer is no error.
void ChannelFlush::check_unused(uint64_t now) {
    if (now < unused_due_) return;
    unused_due_ = now + kUnusedPeriod;
    connector_.table().for_each([this](Connection& connection) {
        auto& channel = static_cast<Channel&>(connection);
        if (channel.users.empty() && channel.up() && !channel.sends.reports())
            (void)requests_.post_empty(channel, false);
    });
}

void ChannelFlush::check_silent(Channel& channel, uint64_t& since) {
    if (channel.carries()) requests_.check_silent(channel, since);
}

void ChannelFlush::request_report(Channel& channel) {
    if (channel.carries() && !channel.sends.reports()) (void)requests_.post_empty(channel, true);
}

}  // namespace tern
