// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/early_sends.h"

#include <algorithm>

#include "tern/engine/fast_path.h"
#include "tern/engine/one_sided.h"
#include "tern/engine/owner.h"
#include "tern/engine/resources.h"
#include "tern/engine/work_requests.h"

namespace tern {

// Peers that do not answer keep buffers for long, so half of the send pool is for other sends.
EarlySends::EarlySends(const EngineParts& parts)
    : pool_(parts.resources.pool),
      room_(parts.room),
      fast_path_(parts.fast_path),
      one_sided_(parts.one_sided),
      requests_(parts.requests),
      owner_(parts.owner),
      accepts_any_(parts.settings.early_sends),
      urgent_id_(parts.settings.urgent_id),
      most_of_all_(parts.settings.send_buffers / 2),
      later_queue_(parts.settings.later_queue()) {}

bool EarlySends::has_room(const Channel& channel) const {
    if (channel.failed || channel.established) return false;
    // A channel that waits for room on the device has no send queue yet.
    const uint32_t depth = channel.sends.open() ? channel.sends.depth() : later_queue_;
    const uint32_t most = std::min(kMost, depth - engine_limits::control_places(depth));
    return channel.backlog.sends() + channel.transfers < most && waiting_ < most_of_all_ &&
           pool_.available();
}

SendPool::Buffer* EarlySends::take_buffer(Channel& channel, bool accepted) {
    if (!accepted || !has_room(channel) || !channel.backlog.make_room()) return nullptr;
    return pool_.take();
}

void EarlySends::wait(Channel& channel, const Backlog::Entry& entry) {
    channel.backlog.add(entry);
    ++waiting_;
}

Status EarlySends::gathered_message(Channel& channel, uint32_t id,
                                    std::span<const std::byte> header,
                                    std::span<const ibv_sge> pieces) {
    return message(channel, id, [&](std::byte* to) {
        auto* at = std::copy(header.begin(), header.end(), to);
        for (const ibv_sge& piece : pieces)
            at = std::copy_n(reinterpret_cast<const std::byte*>(piece.addr), piece.length, at);
        return static_cast<uint32_t>(at - to);
    });
}

Status EarlySends::atomic(Channel& channel, const Backlog::Entry& entry) {
    if (!may_wait(channel) || !channel.backlog.make_room()) return room_.no_place(channel);
    wait(channel, entry);
    return Status::kOk;
}

Status EarlySends::fence(Channel& channel) {
    if (!may_wait(channel) || !channel.backlog.make_room()) return Status::kNoResource;
    wait(channel, {.kind = Backlog::Kind::kFence});
    return Status::kOk;
}

void EarlySends::flush(Channel& channel, const Waiter& waiter) {
    channel.backlog.add(
        {.kind = Backlog::Kind::kFlush, .cookie = waiter.cookie, .user = waiter.user});
}

// Posts a message or a write from its copy. The endpoints of a failed channel learn of the loss
// when it ends.
void EarlySends::post_copy(Channel& channel, const Backlog::Entry& entry) {
    const bool posted_with_buffer =
        !channel.failed &&
        (entry.kind == Backlog::Kind::kMessage
             ? fast_path_.post_copy(channel, entry.id, entry.length, *entry.buffer)
             : one_sided_.post_copy(channel, entry.length, entry.to, entry.rkey, *entry.buffer));
    if (!posted_with_buffer) pool_.give(entry.buffer);
}

void EarlySends::send(Channel& channel, const Backlog::Entry& entry) {
    switch (entry.kind) {
        case Backlog::Kind::kMessage:
        case Backlog::Kind::kWrite:
            post_copy(channel, entry);
            break;
        case Backlog::Kind::kAtomic: {
            ibv_sge result = entry.result;
            if (channel.failed ||
                !one_sided_.post_atomic(channel, entry.opcode, result, entry.compare_add,
                                        entry.swap, entry.to, entry.rkey, entry.cookie))
                owner_.completed(entry.cookie, channel.status);
            break;
        }
        case Backlog::Kind::kFence:
            if (!channel.failed) (void)requests_.post_fence(channel);
            break;
        case Backlog::Kind::kFlush:
            if (channel.failed)
                owner_.completed(entry.cookie, channel.status);
            else
                channel.sends.wait({entry.cookie, entry.user});
            break;
    }
}

// The empty send queue has room for the whole backlog.
void EarlySends::send_all(Channel& channel) {
    if (channel.backlog.empty()) return;
    TERN_ASSERT(channel.backlog.sends() <= channel.sends.room());
    for (const Backlog::Entry& entry : channel.backlog.take()) {
        if (entry.kind != Backlog::Kind::kFlush) --waiting_;
        send(channel, entry);
    }
    // Waiters need a signaled work request, those of ChannelFlush::check() even if no other is
    // outstanding.
    if (channel.sends.has_waiters() && !channel.sends.reports())
        (void)requests_.post_empty(channel, false);
}

Status EarlySends::drop_all(Channel& channel, Status status) {
    if (channel.backlog.empty()) return status;
    if (status == Status::kOk) status = Status::kConnectionReset;
    for (const Backlog::Entry& entry : channel.backlog.take()) {
        if (entry.kind != Backlog::Kind::kFlush) --waiting_;
        if (entry.buffer != nullptr) pool_.give(entry.buffer);
        if (entry.cookie != nullptr) owner_.completed(entry.cookie, status);
    }
    return status;
}

}  // namespace tern
