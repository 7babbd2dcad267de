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

Status OneSided::put_word_short(Channel& channel, std::span<const std::byte> data, uint64_t to,
                                uint64_t word_to, uint64_t word, uint32_t rkey) {
    if (!channel.sends.takes_unsignaled(2)) return Status::kNoResource;
    // A peer with a block that asks for no completions looks for frames in memory.
    const Channel::Sending& sending = channel.sending;
    const bool in_one = word_to == to + data.size() && !data.empty() &&
                        sending.path.straight(sizeof(Word)) &&
                        __atomic_load_n(sending.notify, __ATOMIC_RELAXED) == notify::kNever;
    ibv_send_wr& put = word_.put;
    ibv_send_wr& then = word_.then;
    word_.value = word;
    word_.pieces[0].addr = address_of(data.data());
    word_.pieces[0].length = static_cast<uint32_t>(data.size());
    put.wr_id = channel.tag | channel.sends.next();
    put.num_sge = in_one ? 2 : 1;
    put.next = in_one ? nullptr : &then;
    put.send_flags = IBV_SEND_INLINE | signal_first(channel);
    put.wr.rdma.remote_addr = to;
    put.wr.rdma.rkey = rkey;
    if (!in_one) {
        put.num_sge = data.empty() ? 0 : 1;
        then.wr_id = channel.tag | (channel.sends.next() + 1);
        then.wr.rdma.remote_addr = word_to;
        then.wr.rdma.rkey = rkey;
    }
    ibv_send_wr* bad = nullptr;
    const bool refused = ibv_post_send(channel.qp.get(), &put, &bad) != 0;
    if (!refused || bad == &then)
        channel.sends.posted((put.send_flags & IBV_SEND_SIGNALED) != 0, true);
    if (refused) [[unlikely]]
        return requests_.on_refused(channel);
    if (!in_one) channel.sends.posted(false, true);
    counters_.puts += 2;
    return Status::kOk;
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
