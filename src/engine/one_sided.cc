// SPDX-License-Identifier: BSD-3-Clause
#include "engine/one_sided.h"

#include <cstring>

namespace tern {

// There is no room, the connection is being made, a completion is due, or the put is empty.
Status OneSided::put_short_slow(Channel& channel, const void* data, uint32_t length, uint64_t to,
                                uint32_t rkey) {
    if (!channel.sends.takes_data()) {
        const Status waits = early_.write(channel, to, rkey, [&](std::byte* at) {
            if (length != 0) memcpy(at, data, length);
            return length;
        });
        counters_.puts += waits == Status::kOk;
        return waits;
    }
    ++counters_.puts;
    return requests_.write_inline(channel, data, length, to, rkey, true) ? Status::kOk
                                                                         : Status::kDevice;
}

bool OneSided::fence(Channel& channel) {
    if (!channel.sends.takes_data()) return early_.fence(channel) == Status::kOk;
    return !channel.failed && requests_.post_fence(channel);
}

bool OneSided::post_copy(Channel& channel, uint32_t length, uint64_t to, uint32_t rkey,
                         SendPool::Buffer& buffer) {
    ibv_sge piece{.addr = address_of(buffer.data), .length = length, .lkey = buffer.lkey};
    const bool at_once = length <= max_inline_;
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = length != 0 ? 1 : 0;
    request.send_flags = at_once ? IBV_SEND_INLINE : 0;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = rkey;
    if (!requests_.post(channel, request, true) || at_once) return false;
    buffer.holder = channel.tag;
    channel.sends.record(&buffer, nullptr);
    return true;
}

}  // namespace tern
