// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/fast_path.h"

#include "tern/engine/poller.h"
#include "tern/engine/resources.h"

namespace tern {

FastPath::FastPath(const EngineParts& parts)
    : max_inline_(parts.resources.max_inline),
      pool_(parts.resources.pool),
      requests_(parts.requests),
      blocks_(parts.peer_blocks),
      early_(parts.early),
      room_(parts.room),
      batches_(parts.poller.batches()) {
    cold_.request.opcode = IBV_WR_SEND;
    cold_.piece.addr = address_of(cold_.frame);
}

bool FastPath::takes_copies(Channel& channel) {
    if (!channel.sends.takes_data())
        (void)room_.no_place(channel);
    else if (const auto choice = blocks_.choose_unknown(channel); PeerBlocks::refuses(choice))
        (void)blocks_.on_refused(channel, choice);
    else if (!pool_.prepare())
        (void)room_.no_buffer();
    else
        return true;
    return false;
}

Status FastPath::post_packed_slow(Channel& channel, uint32_t id, uint32_t length,
                                  SendPool::Buffer& buffer) {
    bool marks = false;
    if (batches_.suits(channel, length)) {
        const auto fill = [&](std::byte* to) { memcpy(to, payload_of(buffer), length); };
        if (batches_.take(channel, id, length, fill)) {
            pool_.give(&buffer);
            ++counters_.bcopies;
            ++batched_copies_;
            return Status::kOk;
        }
        marks = Batches::mark_due(channel);
    }
    if (!blocks_.prepare(channel)) [[unlikely]] {
        pool_.give(&buffer);
        return Status::kDevice;
    }
    SendPath::Choice choice = channel.sending.path.choose(length);
    if (choice.route == SendPath::Route::kStall) {
        (void)blocks_.on_stall(channel);
        choice.route = SendPath::Route::kCold;
    }
    const bool hot = choice.route == SendPath::Route::kBlock;
    ibv_sge piece{.addr = address_of(buffer.data) + begin_of(hot),
                  .length = frame_length(hot, length),
                  .lkey = buffer.lkey};
    const bool at_once = piece.length <= max_inline_;
    const Status status = post_frame(
        channel, choice, id, length, &piece, 1,
        (at_once ? unsigned{IBV_SEND_INLINE} : 0) | (marks ? unsigned{IBV_SEND_SIGNALED} : 0),
        at_once ? nullptr : &buffer, nullptr);
    if (marks && status == Status::kOk) batches_.set_mark(channel);
    if (at_once || status != Status::kOk) pool_.give(&buffer);
    ++counters_.bcopies;
    if (!hot) blocks_.on_detour(channel, length);
    return status;
}

bool FastPath::post_copy(Channel& channel, uint32_t id, uint32_t length, SendPool::Buffer& buffer) {
    ibv_sge piece{.addr = address_of(buffer.data),
                  .length = frame_length(false, length),
                  .lkey = buffer.lkey};
    const bool at_once = piece.length <= max_inline_;
    return post_frame(channel, {}, id, length, &piece, 1, at_once ? IBV_SEND_INLINE : 0,
                      at_once ? nullptr : &buffer, nullptr) == Status::kOk &&
           !at_once;
}

}  // namespace tern
