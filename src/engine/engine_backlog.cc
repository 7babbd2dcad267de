// SPDX-License-Identifier: BSD-3-Clause

// Sends that wait for their connection to come up. Control path.

#include <algorithm>

#include "engine/engine.h"
#include "engine/engine_send.h"

namespace tern {

// Limits the sends that wait: for each connection, together with its transfers; and for all
// connections to half of the send pool, since peers that do not answer keep buffers for long.
bool Engine::room_to_wait(const Channel& channel) const {
    if (channel.failed || channel.established) return false;
    const uint32_t most = std::min(kMostWaiting, settings_.send_queue - kReserve);
    return channel.backlog.sends() + channel.transfers < most &&
           waiting_ < settings_.send_buffers / 2 && pool_.available();
}

void Engine::wait(Channel& channel, const Backlog::Entry& entry) {
    channel.backlog.add(entry);
    ++waiting_;
}

Status Engine::gather_to_wait(Channel& channel, uint32_t id, std::span<const std::byte> header,
                              std::span<const ibv_sge> user) {
    return message_to_wait(channel, id, counters_.zcopies, [&](std::byte* to) {
        auto* at = std::copy(header.begin(), header.end(), to);
        for (const ibv_sge& piece : user)
            at = std::copy_n(reinterpret_cast<const std::byte*>(piece.addr), piece.length, at);
        return static_cast<uint32_t>(at - to);
    });
}

// The handler of the cookie decrements `replies`.
Status Engine::atomic_to_wait(Channel& channel, const Backlog::Entry& entry) {
    if (!may_wait(channel)) return no_room(channel);
    wait(channel, entry);
    ++channel.replies;
    return Status::kOk;
}

bool Engine::fence_to_wait(Channel& channel) {
    if (!may_wait(channel)) return false;
    wait(channel, {.kind = Backlog::Kind::kFence});
    return true;
}

void Engine::flush_to_wait(Channel& channel, const Waiter& waiter) {
    channel.backlog.add(
        {.kind = Backlog::Kind::kFlush, .cookie = waiter.cookie, .user = waiter.user});
}

// Posts a message or a write from its copy.
void Engine::send_waiting(Channel& channel, const Backlog::Entry& entry) {
    const bool message = entry.kind == Backlog::Kind::kMessage;
    ibv_sge piece{.addr = address_of(entry.buffer->data),
                  .length = entry.length + (message ? uint32_t{sizeof(Word)} : 0),
                  .lkey = entry.buffer->lkey};
    const bool at_once = piece.length <= max_inline_;
    bool kept = false;
    if (channel.failed) {
        // The endpoints are told when the connection ends.
    } else if (message) {
        kept = post_frame(channel, {}, entry.id, entry.length, &piece, 1,
                          at_once ? IBV_SEND_INLINE : 0, at_once ? nullptr : entry.buffer,
                          nullptr) == Status::kOk &&
               !at_once;
    } else {
        ibv_send_wr request{};
        request.sg_list = &piece;
        request.num_sge = entry.length != 0 ? 1 : 0;
        request.send_flags = at_once ? IBV_SEND_INLINE : 0;
        request.opcode = IBV_WR_RDMA_WRITE;
        request.wr.rdma.remote_addr = entry.to;
        request.wr.rdma.rkey = entry.rkey;
        kept = post(channel, request, true) && !at_once;
        if (kept) channel.sends.record(entry.buffer, nullptr);
    }
    if (!kept) pool_.give(entry.buffer);
}

// The connection has just come up: its empty send queue has room for the whole backlog.
void Engine::send_backlog(Channel& channel) {
    if (channel.backlog.empty()) return;
    for (Backlog::Entry& entry : channel.backlog.take()) {
        if (entry.kind != Backlog::Kind::kFlush) --waiting_;
        switch (entry.kind) {
            case Backlog::Kind::kMessage:
            case Backlog::Kind::kWrite:
                send_waiting(channel, entry);
                break;
            case Backlog::Kind::kAtomic:
                if (channel.failed ||
                    !post_atomic(channel, entry.opcode, entry.result, entry.compare_add, entry.swap,
                                 entry.to, entry.rkey, entry.cookie))
                    owner_.completed(entry.cookie, channel.status);
                break;
            case Backlog::Kind::kFence:
                if (!channel.failed) (void)post_fence(channel);
                break;
            case Backlog::Kind::kFlush:
                if (channel.failed)
                    owner_.completed(entry.cookie, channel.status);
                else
                    channel.sends.wait({entry.cookie, entry.user});
                break;
        }
    }
    // Waiters need a signaled work request, those of check_channel() even if no other is
    // outstanding.
    if (channel.sends.has_waiters() && !channel.sends.reports()) (void)nop(channel, false);
}

// The connection has ended before it was up. Returns the status for its endpoints.
Status Engine::drop_backlog(Channel& channel, Status status) {
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
