// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/idle_channels.h"

#include <new>

#include "tern/base/trace.h"
#include "tern/connection/connector.h"
#include "tern/engine/channels.h"
#include "tern/engine/owner.h"
#include "tern/engine/work_requests.h"

namespace tern {

namespace {

ConnectionUse::Counts counts_of(const Channel& channel) {
    return {.sent = channel.sends.next(),
            .window = channel.receiving.activity.window,
            .received = channel.receiving.activity.messages};
}

bool was_used(Channel& channel) {
    return channel.use.changes_to(counts_of(channel));
}

}  // namespace

void IdleChannels::look() {
    const uint32_t waiting = connector_.waiting();
    const uint32_t count = connector_.table().live() - waiting;
    if (choice_.is_over(count) || waiting != 0) [[unlikely]]
        suggest(count, waiting);
}

void IdleChannels::suggest(uint32_t count, uint32_t waiting) {
    struct Rows {
        size_t size() const { return table.rows(); }
        Channel* row(size_t i) const {
            auto* const channel = static_cast<Channel*>(table.row(i));
            return channel != nullptr && channel->up() ? channel : nullptr;
        }
        static ConnectionUse& use(Channel& channel) { return channel.use; }
        static ConnectionUse::Counts counts(const Channel& channel) { return counts_of(channel); }
        bool may_end(Channel& channel) const { return idle.may_end(channel); }

        const ConnectionTable& table;
        const IdleChannels& idle;
    };
    const Rows rows{connector_.table(), *this};
    const Channel* const spare = choice_.choose(rows, count, connector_.now(), waiting);
    if (spare != nullptr) connector_.suggest_end(*spare);
}

void IdleChannels::on_over(const PeerAddress& peer) {
    if (!choice_.is_over(connector_.table().live())) return;
    try {
        ended_last_.insert(peer);
    } catch (const std::bad_alloc&) {
        // The limit will not give way to this one.
    }
}

void IdleChannels::on_begin(const PeerAddress& peer) {
    if (!choice_.is_over(connector_.table().live())) return;
    choice_.on_begin(ended_last_.erase(peer), connector_.now());
}

void IdleChannels::on_spare(Channel& channel) {
    if (was_used(channel) || !may_end(channel)) return;
    if (channel.sends.idle()) return end_channel(channel);
    // The next suggestion finds it idle. What only reports is no use.
    requests_.report_all(channel);
    (void)was_used(channel);
}

// Whether nothing is under way but work requests, and nobody waits for something.
bool IdleChannels::may_end(Channel& channel) const {
    return channel.up() && !channel.ending && channel.transfers == 0 && channel.holds == 0 &&
           channel.replies == 0 && channel.backlog.empty() && channel.control.due == 0 &&
           !channel.sends.has_waiters() && owner_.may_end(channel);
}

void IdleChannels::end_channel(Channel& channel) {
    TERN_DEBUG("ends the connection to %s, which could do without it",
               channel.peer.to_string().c_str());
    ++ended_;
    release_users(channel, owner_, Status::kOk);
    connector_.disconnect(channel, true);
}

}  // namespace tern
