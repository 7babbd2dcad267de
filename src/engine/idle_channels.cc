// SPDX-License-Identifier: BSD-3-Clause
#include "engine/idle_channels.h"

#include <algorithm>
#include <utility>

#include "base/trace.h"
#include "connection/connector.h"
#include "engine/channels.h"
#include "engine/owner.h"
#include "engine/work_requests.h"

namespace tern {

namespace {

// Whether the channel has been used since the last call.
bool was_used(Channel& channel) {
    const Channel::Counts counts{.sent = channel.sends.next(),
                                 .window = channel.receiving.activity.window,
                                 .received = channel.receiving.activity.messages};
    return std::exchange(channel.use.counts, counts) != counts;
}

}  // namespace

uint64_t IdleChannels::long_enough(uint32_t count, uint32_t limit) {
    TERN_ASSERT(count > limit);
    return std::clamp(kSilence * limit / (count - limit), kLeast, kMost);
}

void IdleChannels::look() {
    const uint32_t count = connector_.table().live();
    if (count > limit_) [[unlikely]]
        suggest(count);
}

// The least recently used of a few rows is near enough to that of all.
void IdleChannels::suggest(uint32_t count) {
    const uint64_t now = connector_.now();
    if (now >= window_end_) {
        window_end_ = now + kWindow;
        suggestions_ = count - limit_;
    }
    if (suggestions_ == 0) return;
    const ConnectionTable& table = connector_.table();
    Channel* oldest = nullptr;
    for (size_t left = std::min(kLooks, table.rows()); left != 0; --left) {
        if (++row_ >= table.rows()) row_ = 0;
        auto* const channel = static_cast<Channel*>(table.row(row_));
        if (channel == nullptr || !channel->up()) continue;
        if (was_used(*channel) || channel->use.since == 0) channel->use.since = now;
        const bool older = oldest == nullptr || channel->use.since < oldest->use.since;
        if (older && may_end(*channel)) oldest = channel;
    }
    if (oldest == nullptr || now - oldest->use.since < long_enough(count, limit_)) return;
    oldest->use.since = now;
    --suggestions_;
    connector_.suggest_end(*oldest);
}

void IdleChannels::on_spare(Channel& channel) {
    if (was_used(channel) || !may_end(channel)) return;
    if (channel.sends.idle()) return end_channel(channel);
    // The next suggestion finds it idle. What only reports is no use.
    requests_.report_all(channel);
    (void)was_used(channel);
}

bool IdleChannels::nothing_under_way(const Channel& channel) {
    return channel.up() && channel.ending == Connection::Ending::kNot && channel.transfers == 0 &&
           channel.holds == 0 && channel.replies == 0 && channel.rings == 0 &&
           channel.incoming == 0 && channel.outgoing == 0 && channel.backlog.empty() &&
           channel.failures == 0 && !channel.paused && channel.control.due == 0;
}

// Whether nobody waits for something.
bool IdleChannels::may_end(const Channel& channel) const {
    return nothing_under_way(channel) && !channel.sends.has_waiters() && owner_.may_end(channel);
}

void IdleChannels::end_channel(Channel& channel) {
    TERN_DEBUG("ends the connection to %s, which could do without it",
               channel.peer.to_string().c_str());
    ++ended_;
    release_users(channel, owner_, Status::kOk);
    connector_.disconnect(channel, true);
}

}  // namespace tern
