// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The data path of sending: inline and template members of Engine.

#include <arpa/inet.h>

#include <cstring>

#include "engine/engine.h"

namespace tern {

inline uint64_t address_of(const void* data) {
    return reinterpret_cast<uint64_t>(data);
}

// Posts a work request. `users`: its loss counts as the user's.
inline bool Engine::post(Channel& channel, ibv_send_wr& request, bool users) {
    const bool signaled =
        channel.sends.signal_due() || (request.send_flags & IBV_SEND_SIGNALED) != 0;
    if (signaled) request.send_flags |= IBV_SEND_SIGNALED;
    request.wr_id = channel.tag | channel.sends.next();
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(channel.qp.get(), &request, &refused) != 0) [[unlikely]] {
        (void)refused_post(channel);
        return false;
    }
    channel.sends.posted(signaled, users);
    return true;
}

// The work request of a frame, or of an RDMA write or read. Fields that are not set here or by the
// caller are zero.
[[gnu::always_inline]] inline ibv_send_wr& Engine::prepare(ibv_wr_opcode opcode, ibv_sge* pieces,
                                                           int count, unsigned flags) {
    request_.sg_list = pieces;
    request_.num_sge = count;
    request_.opcode = opcode;
    request_.send_flags = flags;
    return request_;
}

// Takes what the peer has written to the credit word. False: nothing new.
inline bool Engine::take_credit(Channel& channel) {
    const WriterWords::Pair* words = channel.words.at;
    if (words == nullptr) return false;
    const uint32_t freed = __atomic_load_n(&words->credit, __ATOMIC_ACQUIRE);
    if (freed == channel.credit_taken) return false;
    const BlockWriter::Taken taken = channel.tx.credit_word(freed);
    if (taken == BlockWriter::Taken::kMalformed) [[unlikely]]
        malformed(channel, "its credit is for more than was written");
    if (taken != BlockWriter::Taken::kYes) return false;
    channel.credit_taken = freed;
    return true;
}

// The path of a payload, with all credit. A frame that goes straight needs no more than there is.
inline SendPath::Choice Engine::choose(Channel& channel, uint32_t length) {
    (void)take_credit(channel);
    if (channel.failed) [[unlikely]]
        return {.route = SendPath::Route::kStall, .plan = {}};
    return channel.tx.choose(length);
}

// Posts a frame on the chosen path. `pieces` are the whole frame, with its words, which are written
// here: into the memory of the first piece and, for a block, of the last.
inline Status Engine::post_frame(Channel& channel, const SendPath::Choice& choice, uint32_t id,
                                 uint32_t length, ibv_sge* pieces, int count, unsigned flags,
                                 void* buffer, void* cookie) {
    const uint16_t credit = channel.rx.credit();
    auto* head = reinterpret_cast<uint64_t*>(pieces[0].addr);
    if (choice.route == SendPath::Route::kBlock) {
        const ibv_sge& last = pieces[count - 1];
        *head = choice.plan.below().raw();
        *reinterpret_cast<uint64_t*>(last.addr + last.length - sizeof(uint64_t)) =
            channel.tx.block_word(FrameKind::kActiveMessage, id, length, credit).raw();
        if (choice.plan.wrap && !post_wrap(channel, choice.plan.wrap_at)) return Status::kDevice;
        const uint32_t notify = __atomic_load_n(channel.notify, __ATOMIC_RELAXED);
        ibv_send_wr& request = prepare(notify != 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                                       pieces, count, flags);
        request.imm_data = htonl(notify::immediate(notify));
        request.wr.rdma.remote_addr = channel.block_address + choice.plan.at;
        request.wr.rdma.rkey = channel.block_rkey;
        if (!post(channel, request, true)) return Status::kDevice;
        channel.tx.sent_block(choice.plan);
        channel.stalled = false;
        ++counters_.sent_hot;
    } else {
        *head = channel.tx.cold_word(FrameKind::kActiveMessage, id, length, credit).raw();
        if (!post(channel, prepare(IBV_WR_SEND, pieces, count, flags), true))
            return Status::kDevice;
        channel.tx.sent_cold();
        ++counters_.sent_cold;
    }
    channel.rx.credit_sent();
    if (buffer != nullptr || cookie != nullptr) channel.sends.record(buffer, cookie);
    return Status::kOk;
}

// Copies a message into the backlog if its connection is being made. `fill(std::byte* to)` returns
// the length. Increments `counter` if the message is accepted.
template <class Fill>
[[gnu::noinline, gnu::cold]] Status Engine::message_to_wait(Channel& channel, uint32_t id,
                                                            uint64_t& counter, Fill&& fill) {
    const bool taken = settings_.early_sends || id == settings_.early_id;
    SendPool::Buffer* buffer = taken && room_to_wait(channel) ? pool_.take() : nullptr;
    if (buffer == nullptr) return no_room(channel);
    ++counter;
    const uint32_t length = fill(buffer->data + sizeof(Word));
    wait(channel, {.kind = Backlog::Kind::kMessage, .id = id, .length = length, .buffer = buffer});
    return Status::kOk;
}

template <class Fill>
[[gnu::noinline, gnu::cold]] Status Engine::write_to_wait(Channel& channel, uint64_t to,
                                                          uint32_t rkey, Fill&& fill) {
    SendPool::Buffer* buffer = may_wait(channel) ? pool_.take() : nullptr;
    if (buffer == nullptr) return no_room(channel);
    ++counters_.puts;
    const uint32_t length = fill(buffer->data);
    wait(channel, {.kind = Backlog::Kind::kWrite,
                   .length = length,
                   .rkey = rkey,
                   .to = to,
                   .buffer = buffer});
    return Status::kOk;
}

// Makes the work request of a message to a hot peer, in the usual case: there is room, no
// completion or notification is due, and no wrap.
template <class Fill>
[[gnu::always_inline]] inline void Engine::make_short(Channel& channel, uint32_t id,
                                                      uint32_t length, uint32_t body, Fill fill) {
    std::byte* const tail = short_.frame + body;
    memset(tail - sizeof(Word), 0, sizeof(Word));  // the padding, if any, is in these bytes
    fill(short_.frame + sizeof(Word));
    const Word word =
        channel.tx.block_word(FrameKind::kActiveMessage, id, length, channel.rx.credit());
    memcpy(tail, &word, sizeof(word));
    short_.piece.length = body + uint32_t{sizeof(Word)};
    short_.request.wr.rdma.remote_addr = channel.block_address + channel.tx.straight_at(body);
    short_.request.wr.rdma.rkey = channel.block_rkey;
}

[[gnu::always_inline]] inline void Engine::sent_short(Channel& channel, uint32_t body) {
    channel.sends.posted(false, true);
    channel.tx.sent_straight(body);
    channel.stalled = false;
    channel.rx.credit_sent();
    ++counters_.sent_hot;
    ++counters_.shorts;
}

template <class Fill>
[[gnu::always_inline]] inline Status Engine::am_short(Channel& channel, uint32_t id,
                                                      uint32_t length, Fill fill) {
    const uint32_t body = padded(length) + uint32_t{sizeof(Word)};
    if (!channel.sends.takes_unsignaled() || !channel.tx.straight(body) ||
        __atomic_load_n(channel.notify, __ATOMIC_RELAXED) != notify::kNever) [[unlikely]]
        return short_otherwise(channel, id, length, fill);
    make_short(channel, id, length, body, fill);
    short_.request.wr_id = channel.tag | channel.sends.next();
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(channel.qp.get(), &short_.request, &bad) != 0) [[unlikely]]
        return refused_post(channel);
    sent_short(channel, body);
    return Status::kOk;
}

template <class Fill>
Status Engine::put_am_short(Channel& channel, std::span<const std::byte> data, uint64_t to,
                            uint32_t rkey, uint32_t id, uint32_t length, Fill fill) {
    const uint32_t body = padded(length) + uint32_t{sizeof(Word)};
    if (!channel.sends.takes_unsignaled(2) || !channel.tx.straight(body) ||
        __atomic_load_n(channel.notify, __ATOMIC_RELAXED) != notify::kNever)
        return Status::kNoResource;
    make_short(channel, id, length, body, fill);
    ibv_sge piece{
        .addr = address_of(data.data()), .length = static_cast<uint32_t>(data.size()), .lkey = 0};
    ibv_send_wr put{};
    put.wr_id = channel.tag | channel.sends.next();
    put.next = &short_.request;
    put.sg_list = &piece;
    put.num_sge = data.empty() ? 0 : 1;
    put.opcode = IBV_WR_RDMA_WRITE;
    put.send_flags = IBV_SEND_INLINE | signal_first(channel);
    put.wr.rdma.remote_addr = to;
    put.wr.rdma.rkey = rkey;
    short_.request.wr_id = channel.tag | (channel.sends.next() + 1);
    ibv_send_wr* bad = nullptr;
    const bool refused = ibv_post_send(channel.qp.get(), &put, &bad) != 0;
    if (!refused || bad == &short_.request) {
        channel.sends.posted((put.send_flags & IBV_SEND_SIGNALED) != 0, true);
        ++counters_.puts;
    }
    if (refused) [[unlikely]]
        return refused_post(channel);
    sent_short(channel, body);
    return Status::kOk;
}

// In all other cases.
template <class Fill>
[[gnu::noinline]] Status Engine::short_otherwise(Channel& channel, uint32_t id, uint32_t length,
                                                 Fill fill) {
    if (!channel.sends.takes_data()) [[unlikely]]
        return message_to_wait(channel, id, counters_.shorts, [&](std::byte* to) {
            fill(to);
            return length;
        });
    const SendPath::Choice choice = choose(channel, length);
    if (choice.route == SendPath::Route::kStall) [[unlikely]]
        return stalled(channel);
    alignas(64) std::byte bytes[kInlineLimit];
    memset(bytes + padded(length), 0, sizeof(Word));
    fill(bytes + sizeof(Word));
    const bool hot = choice.route == SendPath::Route::kBlock;
    ibv_sge piece{
        .addr = address_of(bytes),
        .length = hot ? padded(length) + BlockWriter::kOverhead : length + uint32_t{sizeof(Word)},
        .lkey = 0};
    const Status status =
        post_frame(channel, choice, id, length, &piece, 1, IBV_SEND_INLINE, nullptr, nullptr);
    ++counters_.shorts;
    if (!hot && channel.tx.detoured(length)) schedule_control(channel, Channel::kReleaseDue);
    return status;
}

template <class Pack>
Status Engine::am_bcopy(Channel& channel, uint32_t id, Pack&& pack, uint32_t& length) {
    if (!channel.sends.takes_data()) [[unlikely]]
        return message_to_wait(channel, id, counters_.bcopies, [&](std::byte* to) {
            return length = pack(static_cast<void*>(to));
        });
    // `pack` may be called only once, and the length is not known before: the last length serves as
    // a guess. If the block has no room for the actual length, the frame goes cold.
    if (choose(channel, channel.last_bcopy).route == SendPath::Route::kStall) [[unlikely]]
        return stalled(channel);
    SendPool::Buffer* buffer = pool_.take();
    if (buffer == nullptr) [[unlikely]] {
        return no_buffer();
    }
    length = pack(static_cast<void*>(buffer->data + sizeof(Word)));
    channel.last_bcopy = length;
    SendPath::Choice choice = channel.tx.choose(length);
    if (choice.route == SendPath::Route::kStall) {
        (void)stalled(channel);
        choice.route = SendPath::Route::kCold;
    }
    const bool hot = choice.route == SendPath::Route::kBlock;
    ibv_sge piece{
        .addr = address_of(buffer->data),
        .length = hot ? padded(length) + BlockWriter::kOverhead : length + uint32_t{sizeof(Word)},
        .lkey = buffer->lkey};
    Status status;
    if (piece.length <= max_inline_) {
        status =
            post_frame(channel, choice, id, length, &piece, 1, IBV_SEND_INLINE, nullptr, nullptr);
        pool_.give(buffer);
    } else {
        status = post_frame(channel, choice, id, length, &piece, 1, 0, buffer, nullptr);
        if (status != Status::kOk) [[unlikely]]
            pool_.give(buffer);
    }
    ++counters_.bcopies;
    if (!hot && channel.tx.detoured(length)) schedule_control(channel, Channel::kReleaseDue);
    return status;
}

inline Status Engine::am_zcopy(Channel& channel, uint32_t id, std::span<const std::byte> header,
                               std::span<const ibv_sge> user, void* cookie) {
    if (!channel.sends.takes_data()) [[unlikely]]
        return gather_to_wait(channel, id, header, user);
    uint32_t size = static_cast<uint32_t>(header.size());
    for (const ibv_sge& piece : user) size += piece.length;
    const SendPath::Choice choice = choose(channel, size);
    if (choice.route == SendPath::Route::kStall) [[unlikely]]
        return stalled(channel);
    SendPool::Buffer* buffer = pool_.take();
    if (buffer == nullptr) [[unlikely]] {
        return no_buffer();
    }
    const bool hot = choice.route == SendPath::Route::kBlock;
    // [head, header] and [padding, tail] are in `buffer`; the device gathers the rest from the
    // user's memory.
    ibv_sge pieces[kPieces];
    int count = 0;
    const auto front = static_cast<uint32_t>(sizeof(Word) + header.size());
    if (!header.empty()) memcpy(buffer->data + sizeof(Word), header.data(), header.size());
    pieces[count++] = {.addr = address_of(buffer->data), .length = front, .lkey = buffer->lkey};
    for (const ibv_sge& piece : user)
        if (piece.length != 0) pieces[count++] = piece;
    if (hot) {
        const uint32_t padding = padded(size) - size;
        std::byte* tail = buffer->data + padded(front);
        pieces[count++] = {.addr = address_of(tail) + (Word::kUnit - padding),
                           .length = padding + uint32_t{sizeof(Word)},
                           .lkey = buffer->lkey};
    }
    const uint32_t total =
        (hot ? padded(size) + BlockWriter::kOverhead : size + uint32_t{sizeof(Word)});
    const bool at_once = total <= max_inline_;
    const Status status = post_frame(channel, choice, id, size, pieces, count,
                                     at_once ? IBV_SEND_INLINE : IBV_SEND_SIGNALED,
                                     at_once ? nullptr : buffer, at_once ? nullptr : cookie);
    ++counters_.zcopies;
    if (!hot && channel.tx.detoured(size)) schedule_control(channel, Channel::kReleaseDue);
    if (at_once || status != Status::kOk) pool_.give(buffer);
    return at_once || status != Status::kOk ? status : Status::kInProgress;
}

// A put to an idle send queue is signaled, because a flush that follows then needs no work request
// of its own. In a stream of puts the queue is not idle.
inline unsigned Engine::signal_first(const Channel& channel) {
    return channel.sends.idle() ? IBV_SEND_SIGNALED : 0;
}

// The send queue must have room.
inline bool Engine::write_inline(Channel& channel, const void* data, uint32_t length, uint64_t to,
                                 uint32_t rkey, bool users) {
    ibv_sge piece{.addr = address_of(data), .length = length, .lkey = 0};
    ibv_send_wr& request = prepare(IBV_WR_RDMA_WRITE, &piece, length != 0 ? 1 : 0,
                                   IBV_SEND_INLINE | (users ? signal_first(channel) : 0));
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = rkey;
    return post(channel, request, users);
}

inline Status Engine::write_word(Channel& channel, uint64_t word, uint64_t to, uint32_t rkey) {
    if (!channel.sends.takes_data()) return no_room(channel);
    return write_inline(channel, &word, sizeof(word), to, rkey, false) ? Status::kOk
                                                                       : Status::kDevice;
}

inline Status Engine::write(Channel& channel, std::span<ibv_sge> pieces, uint64_t to, uint32_t rkey,
                            uint32_t immediate, void* cookie) {
    if (channel.sends.room() <= channel.transfer_reserve) return no_room(channel);
    ibv_send_wr& request =
        prepare(immediate != 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, pieces.data(),
                static_cast<int>(pieces.size()), cookie != nullptr ? IBV_SEND_SIGNALED : 0);
    request.imm_data = htonl(immediate);
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = rkey;
    if (!post(channel, request, true)) return Status::kDevice;
    if (cookie == nullptr) return Status::kOk;
    channel.sends.record(nullptr, cookie);
    patience_ = 0;  // as in flush()
    return Status::kOk;
}

inline Status Engine::read(Channel& channel, std::span<ibv_sge> pieces, uint64_t from,
                           uint32_t rkey, void* cookie) {
    if (channel.sends.room() <= channel.transfer_reserve) return no_room(channel);
    return post_read(channel, pieces, from, rkey, cookie) ? Status::kOk : Status::kDevice;
}

// An RDMA write or read of one piece. The send queue must have room, and a signaled work request
// must not be due unless this one is.
[[gnu::always_inline]] inline bool Engine::access(Channel& channel, ibv_wr_opcode opcode,
                                                  unsigned flags, const ibv_sge& piece,
                                                  uint64_t remote, uint32_t rkey) {
    access_.piece = piece;
    access_.request.wr_id = channel.tag | channel.sends.next();
    access_.request.opcode = opcode;
    access_.request.send_flags = flags;
    access_.request.wr.rdma.remote_addr = remote;
    access_.request.wr.rdma.rkey = rkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(channel.qp.get(), &access_.request, &bad) != 0) [[unlikely]] {
        (void)refused_post(channel);
        return false;
    }
    channel.sends.posted((flags & IBV_SEND_SIGNALED) != 0, true);
    return true;
}

[[gnu::always_inline]] inline Status Engine::put_in_place(Channel& channel, const ibv_sge& from,
                                                          uint64_t to, uint32_t rkey,
                                                          void* cookie) {
    if (!access(channel, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, from, to, rkey)) [[unlikely]]
        return Status::kDevice;
    channel.sends.record(nullptr, cookie);
    patience_ = 0;  // as in flush()
    ++counters_.puts;
    ++counters_.in_place;
    return Status::kOk;
}

[[gnu::always_inline]] inline Status Engine::get_in_place(Channel& channel, const ibv_sge& to,
                                                          uint64_t from, uint32_t rkey,
                                                          void* cookie) {
    const Status posted = get(channel, to, from, rkey, cookie);
    if (posted == Status::kOk) [[likely]]
        ++counters_.in_place;
    return posted;
}

[[gnu::always_inline]] inline Status Engine::get(Channel& channel, const ibv_sge& to, uint64_t from,
                                                 uint32_t rkey, void* cookie) {
    if (!access(channel, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, to, from, rkey)) [[unlikely]]
        return Status::kDevice;
    ++channel.replies;
    channel.sends.record(nullptr, cookie);
    patience_ = 0;  // as in flush()
    ++counters_.gets;
    return Status::kOk;
}

[[gnu::always_inline]] inline Status Engine::get_copy(Channel& channel, uint32_t length,
                                                      uint64_t from, uint32_t rkey, void* cookie,
                                                      SendPool::Buffer*& buffer) {
    if (!channel.sends.takes_data()) [[unlikely]]
        return no_room(channel);
    buffer = pool_.take();
    if (buffer == nullptr) [[unlikely]]
        return no_buffer();
    const ibv_sge piece{.addr = address_of(buffer->data), .length = length, .lkey = buffer->lkey};
    const Status posted = get(channel, piece, from, rkey, cookie);
    if (posted != Status::kOk) [[unlikely]]
        pool_.give(buffer);
    return posted;
}

inline bool Engine::post_read(Channel& channel, std::span<ibv_sge> pieces, uint64_t from,
                              uint32_t rkey, void* cookie) {
    ibv_send_wr& request = prepare(IBV_WR_RDMA_READ, pieces.data(), static_cast<int>(pieces.size()),
                                   IBV_SEND_SIGNALED);
    request.wr.rdma.remote_addr = from;
    request.wr.rdma.rkey = rkey;
    if (!post(channel, request, true)) return false;
    ++channel.replies;
    channel.sends.record(nullptr, cookie);
    patience_ = 0;  // as in flush()
    return true;
}

inline Status Engine::atomic(Channel& channel, ibv_wr_opcode opcode, ibv_sge& result,
                             uint64_t compare_add, uint64_t swap, uint64_t to, uint32_t rkey,
                             void* cookie) {
    if (!channel.sends.takes_data()) [[unlikely]]
        return atomic_to_wait(channel, {.kind = Backlog::Kind::kAtomic,
                                        .rkey = rkey,
                                        .to = to,
                                        .cookie = cookie,
                                        .opcode = opcode,
                                        .compare_add = compare_add,
                                        .swap = swap,
                                        .result = result});
    if (!post_atomic(channel, opcode, result, compare_add, swap, to, rkey, cookie))
        return Status::kDevice;
    ++channel.replies;
    return Status::kOk;
}

inline bool Engine::post_atomic(Channel& channel, ibv_wr_opcode opcode, ibv_sge& result,
                                uint64_t compare_add, uint64_t swap, uint64_t to, uint32_t rkey,
                                void* cookie) {
    ibv_send_wr request{};
    request.sg_list = &result;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.atomic.remote_addr = to;
    request.wr.atomic.rkey = rkey;
    request.wr.atomic.compare_add = compare_add;
    request.wr.atomic.swap = swap;
    if (!post(channel, request, true)) return false;
    channel.sends.record(nullptr, cookie);
    ++counters_.atomics;
    return true;
}

[[gnu::always_inline]] inline Status Engine::put_short(Channel& channel, const void* data,
                                                       uint32_t length, uint64_t to,
                                                       uint32_t rkey) {
    if (!channel.sends.takes_unsignaled() || length == 0) [[unlikely]]
        return put_short_otherwise(channel, data, length, to, rkey);
    ++counters_.puts;
    const ibv_sge piece{.addr = address_of(data), .length = length, .lkey = 0};
    return access(channel, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE | signal_first(channel), piece, to,
                  rkey)
               ? Status::kOk
               : Status::kDevice;
}

template <class Pack>
Status Engine::put_bcopy(Channel& channel, Pack&& pack, uint32_t& length, uint64_t to,
                         uint32_t rkey) {
    if (!channel.sends.takes_data()) [[unlikely]]
        return write_to_wait(channel, to, rkey,
                             [&](std::byte* at) { return length = pack(static_cast<void*>(at)); });
    SendPool::Buffer* buffer = pool_.take();
    if (buffer == nullptr) [[unlikely]] {
        return no_buffer();
    }
    length = pack(static_cast<void*>(buffer->data));
    if (length <= max_inline_) {
        const Status posted = put_short(channel, buffer->data, length, to, rkey);
        pool_.give(buffer);
        return posted;
    }
    ++counters_.puts;
    const ibv_sge piece{.addr = address_of(buffer->data), .length = length, .lkey = buffer->lkey};
    const unsigned signal =
        channel.sends.takes_unsignaled() ? signal_first(channel) : unsigned{IBV_SEND_SIGNALED};
    if (!access(channel, IBV_WR_RDMA_WRITE, signal, piece, to, rkey)) [[unlikely]] {
        pool_.give(buffer);
        return Status::kDevice;
    }
    channel.sends.record(buffer, nullptr);
    return Status::kOk;
}

}  // namespace tern
