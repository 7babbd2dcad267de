// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/one_sided.h"

#include <cstring>

#include "tern/engine/peer_blocks.h"
#include "tern/engine/poller.h"
#include "tern/engine/resources.h"

namespace tern {

OneSided::OneSided(const EngineParts& parts)
    : max_inline_(parts.resources.max_inline),
      pool_(parts.resources.pool),
      requests_(parts.requests),
      early_(parts.early),
      room_(parts.room),
      budget_(parts.poller.budget()),
      repeated_(parts.settings.repeats, pool_, requests_, parts.control, counters_.puts),
      blocks_(parts.peer_blocks) {}

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
    channel.sending.last_put = channel.sends.next();
    return requests_.write_inline(channel, data, length, to, rkey, true, signal_first(channel))
               ? Status::kOk
               : Status::kDevice;
}

Status OneSided::put_word_short(Channel& channel, std::span<const std::byte> data, uint64_t to,
                                uint64_t word_to, uint64_t word, uint32_t rkey) {
    if (!channel.sends.takes_unsignaled(2)) [[unlikely]]
        return put_word_short_signaled(channel, data, to, word_to, word, rkey);
    return post_word_short(channel, data, to, word_to, word, rkey, signal_first(channel));
}

// A completion is due, or there is no room.
Status OneSided::put_word_short_signaled(Channel& channel, std::span<const std::byte> data,
                                         uint64_t to, uint64_t word_to, uint64_t word,
                                         uint32_t rkey) {
    const bool in_one = word_to == to + data.size() && !data.empty() && channel.sending.in_order;
    if (!channel.sends.takes_data(in_one ? 1 : 2)) return Status::kNoResource;
    return post_word_short(channel, data, to, word_to, word, rkey, IBV_SEND_SIGNALED);
}

inline Status OneSided::post_word_short(Channel& channel, std::span<const std::byte> data,
                                        uint64_t to, uint64_t word_to, uint64_t word, uint32_t rkey,
                                        unsigned signal) {
    WorkRequests::post_held(channel);
    const bool in_one = word_to == to + data.size() && !data.empty() && channel.sending.in_order;
    channel.sending.last_put = channel.sends.next() + uint32_t{!in_one};
    ibv_send_wr& put = word_.put;
    ibv_send_wr& then = word_.then;
    word_.value = word;
    word_.pieces[0].addr = address_of(data.data());
    word_.pieces[0].length = static_cast<uint32_t>(data.size());
    put.wr_id = channel.tag | channel.sends.next();
    put.num_sge = in_one ? 2 : 1;
    put.next = in_one ? nullptr : &then;
    put.send_flags = IBV_SEND_INLINE | signal;
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

Status OneSided::put_word(Channel& channel, const WordPut& what) {
    SendPool::Buffer* buffer = what.copy;
    bool in_one = what.word_to == what.to + what.from.length && what.from.length != 0 &&
                  (what.to | what.word_to) % sizeof what.word == 0 && channel.sending.in_order;
    // The device reads the word later, so a buffer holds it: that of the data, or one of its own.
    if (in_one && buffer == nullptr) in_one = (buffer = pool_.take()) != nullptr;
    const bool due = !channel.sends.takes_unsignaled(2);
    if (due && !channel.sends.takes_data(in_one ? 1 : 2)) {
        if (buffer != nullptr) pool_.give(buffer);
        return Status::kNoResource;
    }
    WorkRequests::post_held(channel);
    ibv_send_wr& put = word_.put;
    ibv_send_wr& then = word_.then;
    ibv_sge pieces[2] = {what.from, {}};
    put.sg_list = pieces;
    put.num_sge = what.from.length != 0 ? 1 : 0;
    if (in_one && what.copy != nullptr) {
        memcpy(buffer->data + what.from.length, &what.word, sizeof what.word);
        pieces[0].length += uint32_t{sizeof what.word};
    } else if (in_one) {
        memcpy(buffer->data, &what.word, sizeof what.word);
        pieces[1] = {address_of(buffer->data), uint32_t{sizeof what.word}, buffer->lkey};
        put.num_sge = 2;
    }
    const bool signaled = due || what.cookie != nullptr || channel.sends.idle();
    channel.sending.last_put = channel.sends.next() + uint32_t{!in_one};
    put.wr_id = channel.tag | channel.sends.next();
    put.next = in_one ? nullptr : &then;
    put.send_flags = signaled ? unsigned{IBV_SEND_SIGNALED} : 0;
    put.wr.rdma.remote_addr = what.to;
    put.wr.rdma.rkey = what.rkey;
    word_.value = what.word;
    then.wr_id = channel.tag | (channel.sends.next() + 1);
    then.wr.rdma.remote_addr = what.word_to;
    then.wr.rdma.rkey = what.rkey;
    ibv_send_wr* bad = nullptr;
    const bool refused = ibv_post_send(channel.qp.get(), &put, &bad) != 0;
    word_.make_short();
    if (refused && bad != &then) [[unlikely]] {
        if (buffer != nullptr) pool_.give(buffer);
        return requests_.on_refused(channel);
    }
    channel.sends.posted(signaled, true);
    if (buffer != nullptr) buffer->holder = channel.tag;
    if (buffer != nullptr || !refused)
        channel.sends.record(buffer, refused ? nullptr : what.cookie);
    if (refused) [[unlikely]]
        return requests_.on_refused(channel);
    if (!in_one) channel.sends.posted(false, true);
    counters_.puts += 2;
    if (what.cookie != nullptr) posted_in_place();
    return Status::kOk;
}

bool OneSided::fence_all() {
    blocks_.fence_all();
    return blocks_.orders_puts();
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
    channel.sending.last_put = channel.sends.next();
    if (!requests_.post(channel, request, true) || at_once) return false;
    buffer.holder = channel.tag;
    channel.sends.record(&buffer, nullptr);
    return true;
}

}  // namespace tern
