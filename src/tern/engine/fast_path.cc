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
