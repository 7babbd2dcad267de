// SPDX-License-Identifier: BSD-3-Clause
#include "engine/fast_path.h"

namespace tern {

bool FastPath::takes_copies(Channel& channel) {
    if (!channel.sends.takes_data())
        (void)room_.no_place(channel);
    else if (blocks_.choose(channel, channel.sending.last_bcopy).route == SendPath::Route::kStall)
        (void)blocks_.on_stall(channel);
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
