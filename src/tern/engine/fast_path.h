// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstring>
#include <span>

#include "tern/engine/batches.h"
#include "tern/engine/counters.h"
#include "tern/engine/early_sends.h"
#include "tern/engine/parts.h"
#include "tern/engine/peer_blocks.h"
#include "tern/engine/repeated_puts.h"
#include "tern/engine/send_pool.h"
#include "tern/engine/settings.h"
#include "tern/engine/work_requests.h"

namespace tern {

// Active messages: chooses the path of each (SendPath) and posts its frame. While a connection is
// being made, messages wait as copies (EarlySends). Data path.
//
// All functions that send return kNoResource if the caller is to try again after some progress.
// `id`: of an active message, or the value of tag_message().
class FastPath {
  public:
    explicit FastPath(const EngineParts& parts);

    // Whether am_bcopy would accept a message of any length now. If not, counts a refused send.
    bool takes_copies(Channel& channel);

    // `fill(std::byte* to)` writes the payload of `length` bytes, at most Engine::max_short() + 8.
    // Capture by value: only then does the compiler keep it in registers.
    template <class Fill>
    Status am_short(Channel& channel, uint32_t id, uint32_t length, Fill fill);
    using Put = PutRequest::Put;
    // A put, and a cold am_short() behind it, by one call of the device: a frame in a block might
    // be seen before the put's data. kNoResource: nothing is sent, and the two may still be sent
    // one after the other. `puts`: is incremented for the put.
    template <class Fill>
    Status put_am(Channel& channel, const Put& put, uint64_t& puts, uint32_t id, uint32_t length,
                  Fill fill);
    // The usual put_am(): of few bytes, which are copied at once, in a stream. As am_usual().
    [[gnu::always_inline]] static bool takes_usual_put(const Channel& channel) {
        return takes_put(channel) && !channel.sends.idle();
    }
    template <class Fill>
    Status put_am_usual(Channel& channel, std::span<const std::byte> data, uint64_t to,
                        uint32_t rkey, uint64_t& puts, uint32_t id, uint32_t length, Fill fill);
    // For the data of a put_am(), which gives it back. Null: none is free now.
    SendPool::Buffer* take_buffer() { return pool_.take(); }
    // Whether put_am() would probably accept a message.
    [[gnu::always_inline]] static bool takes_put(const Channel& channel) {
        return channel.sends.takes_unsignaled(2) && channel.sending.allowance.several();
    }
    // The usual am_short(), to a peer that is hot: am_usual() may follow only if takes_usual() has
    // just returned true.
    [[gnu::always_inline]] static bool takes_usual(const Channel& channel, uint32_t length) {
        return is_usual(channel, length);
    }
    template <class Fill>
    Status am_usual(Channel& channel, uint32_t id, uint32_t length, Fill fill);
    // am_short() into an open batch. False: call am_short().
    template <class Fill>
    [[gnu::always_inline]] bool am_batched(Channel& channel, uint32_t id, uint32_t length,
                                           Fill fill) {
        return batches_.try_append(channel, id, length, fill);
    }
    // `pack(void* to)` writes the payload, at most segment_size bytes, and returns its length.
    // `length` returns it to the caller.
    template <class Pack>
    Status am_bcopy(Channel& channel, uint32_t id, Pack&& pack, uint32_t& length);
    // The usual am_bcopy(): the caller writes the payload between these two. Null: call am_bcopy().
    SendPool::Buffer* begin_packed(const Channel& channel) {
        return expects_usual(channel) ? pool_.take_free() : nullptr;
    }
    static std::byte* payload_of(const SendPool::Buffer& buffer) {
        return buffer.data + sizeof(Word);
    }
    Status post_packed(Channel& channel, uint32_t id, uint32_t length, SendPool::Buffer& buffer);
    // kInProgress: `cookie` is reported when the pieces may be used again. kOk: they may be used at
    // once.
    Status am_zcopy(Channel& channel, uint32_t id, std::span<const std::byte> header,
                    std::span<const ibv_sge> pieces, void* cookie);
    // A piece of a message in memory of which the processor may not touch a part.
    struct Piece {
        ibv_sge memory;
        bool copied = false;  // the processor may touch this piece, and `memory` has no lkey
    };
    // Sends a message of such pieces, at most Engine::max_pieces(), like am_zcopy(); but never
    // returns kOk, and no message waits as a copy. `fill(std::byte* to)` writes the header when it
    // is certain that the message goes.
    template <class Fill>
    [[gnu::noinline, gnu::cold]] Status am_gathered(Channel& channel, uint32_t id, uint32_t header,
                                                    Fill&& fill, std::span<const Piece> pieces,
                                                    void* cookie);

    // For EarlySends: posts a cold frame whose payload is in `buffer`, after a place for the word.
    // True: the buffer is given back when the frame is complete. False: it may be given back now.
    bool post_copy(Channel& channel, uint32_t id, uint32_t length, SendPool::Buffer& buffer);

    MessageCounters counters() const {
        MessageCounters counters = counters_;
        counters.sent_hot += usual_ + usual_copies_ + batches_.in_blocks();
        counters.sent_cold += batches_.batches() - batches_.in_blocks();
        counters.bcopies += usual_copies_;
        counters.shorts += usual_ + batches_.messages() - batched_copies_;
        return counters;
    }

  private:
    // The work request of messages to hot peers, prepared but for what differs between them.
    struct Write {
        Write() {
            request.sg_list = &piece;
            request.num_sge = 1;
            request.opcode = IBV_WR_RDMA_WRITE;
            request.send_flags = IBV_SEND_INLINE;
        }
        Write(const Write&) = delete;
        Write& operator=(const Write&) = delete;

        alignas(64) ibv_send_wr request{};
        ibv_sge piece{};
    };
    // That of short messages, and its frame. The device has copied the frame when it has been
    // posted.
    struct ShortWrite : Write {
        ShortWrite() { piece.addr = address_of(frame + sizeof(Word)); }
        // A word that is cleared where a message has no bytes, the payload, and the tail.
        alignas(64) std::byte frame[sizeof(Word) + engine_limits::kInline]{};
    };

    // Whether the usual case holds: there is room, nothing may wait, no completion or notification
    // is due, and no wrap.
    [[gnu::always_inline]] static bool is_usual(const Channel& channel, uint32_t length) {
        return channel.sends.takes_frames() && goes_straight(channel, length);
    }
    [[gnu::always_inline]] static bool goes_straight(const Channel& channel, uint32_t length) {
        return channel.sending.path.straight(in_steps(length)) &&
               __atomic_load_n(channel.sending.notify, __ATOMIC_RELAXED) == notify::kNever;
    }
    // The usual am_short() with a completion, behind which others may wait.
    template <class Fill>
    Status am_mark(Channel& channel, uint32_t id, uint32_t length, Fill fill) {
        short_.request.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
        const Status status = am_usual(channel, id, length, fill);
        short_.request.send_flags = IBV_SEND_INLINE;
        if (status == Status::kOk) batches_.set_mark(channel);
        return status;
    }
    // The tail of a frame that goes straight, and where its write of `body` bytes goes, which ends
    // at `end`.
    [[gnu::always_inline]] static Word straight_word(const Channel& channel, uint32_t id,
                                                     uint32_t length) {
        return channel.sending.path.block_word(FrameKind::kActiveMessage, id, length, 0)
            .with_freed(channel.receiving.path.credit_word());
    }
    [[gnu::always_inline]] static void aim_straight(Write& write, const Channel& channel,
                                                    uint32_t end, uint32_t body) {
        write.piece.length = body;
        write.request.wr.rdma.remote_addr = channel.sending.block_address + (end - body);
        write.request.wr.rdma.rkey = channel.sending.block_rkey;
    }
    template <class Fill>
    void make_short(Channel& channel, uint32_t id, uint32_t length, Fill fill);
    // The work request of the message behind a put, which has `next` as its number.
    template <class Fill>
    void make_cold(Channel& channel, uint32_t next, uint32_t id, uint32_t length, Fill fill);
    void sent_cold(Channel& channel);
    void sent_straight(Channel& channel, uint32_t length);
    // Whether the message of am_bcopy() will go straight or with others, by the length of the last
    // one.
    static bool expects_usual(const Channel& channel) {
        return (is_usual(channel, channel.sending.last_bcopy) || channel.sends.held()) &&
               !channel.sending.allowance.overdrawn();
    }
    Status post_packed_slow(Channel& channel, uint32_t id, uint32_t length,
                            SendPool::Buffer& buffer);
    // The device has posted nothing, or only the put.
    [[gnu::cold, gnu::noinline]] Status on_refused_put(Channel& channel, uint64_t& puts) {
        if (bad_ == &cold_.request) {
            channel.sends.posted(false, true);
            ++puts;
        }
        bad_ = nullptr;
        return requests_.on_refused(channel);
    }
    template <class Fill>
    Status am_short_slow(Channel& channel, uint32_t id, uint32_t length, Fill fill);
    Status post_frame(Channel& channel, const SendPath::Choice& choice, uint32_t id,
                      uint32_t length, ibv_sge* pieces, int count, unsigned flags,
                      SendPool::Buffer* buffer, void* cookie);
    // Bytes of a frame's write or send.
    static uint32_t frame_length(bool hot, uint32_t payload) {
        return hot ? BlockWriter::body(payload) : payload + uint32_t{sizeof(Word)};
    }
    // Where a frame begins in memory that has a place for a word, the payload, and the rest: a
    // frame in a block has no word before its payload.
    static uint32_t begin_of(bool hot) { return hot ? uint32_t{sizeof(Word)} : 0; }
    // The first piece of a frame that is gathered, of `front` bytes with the word. Returns how many
    // pieces that is.
    static int add_front(ibv_sge* pieces, const SendPool::Buffer& buffer, uint32_t front,
                         bool hot) {
        const uint32_t begin = begin_of(hot);
        if (front == begin) return 0;
        pieces[0] = {
            .addr = address_of(buffer.data) + begin, .length = front - begin, .lkey = buffer.lkey};
        return 1;
    }
    // No bytes of earlier messages go to the peer. Returns `at`.
    static std::byte* clear_padding(std::byte* at) {
        return static_cast<std::byte*>(memset(at, 0, Word::kUnit));
    }
    // The last piece in a block, whose payload has `size` bytes: padding and tail, at `tail`.
    static ibv_sge tail_piece(const SendPool::Buffer& buffer, const std::byte* tail,
                              uint32_t size) {
        const uint32_t padding = padded(size) - size;
        return {.addr = address_of(tail) + (Word::kUnit - padding),
                .length = padding + uint32_t{sizeof(Word)},
                .lkey = buffer.lkey};
    }

    ShortWrite short_;
    ShortWrite cold_;  // the same, of a send, whose frame begins with the word
    Write copy_;
    ibv_send_wr* bad_ = nullptr;   // the work request that the device has refused
    uint64_t usual_ = 0;           // short messages to hot peers in the usual case
    uint64_t usual_copies_ = 0;    // those of am_bcopy()
    uint64_t batched_copies_ = 0;  // of am_bcopy(), which Batches has taken
    MessageCounters counters_;     // of all others
    uint32_t max_inline_;
    SendPool& pool_;
    WorkRequests& requests_;
    PeerBlocks& blocks_;
    EarlySends& early_;
    SendRoom& room_;
    Batches& batches_;
    PutRequest put_{IBV_WR_RDMA_WRITE, &cold_.request};
};

// Makes the work request of a message to a hot peer, in the usual case.
template <class Fill>
[[gnu::always_inline]] inline void FastPath::make_short(Channel& channel, uint32_t id,
                                                        uint32_t length, Fill fill) {
    const size_t payload = padded(size_t{length});  // in 64 bits, as it is added to addresses
    const uint32_t end = channel.sending.path.straight_end();  // before memory is written to
    std::byte* const tail = short_.frame + sizeof(Word) + payload;
    memset(tail - sizeof(Word), 0, sizeof(Word));  // the padding, if any, is in these bytes
    fill(short_.frame + sizeof(Word));
    const Word word = straight_word(channel, id, length);
    memcpy(tail, &word, sizeof(word));
    aim_straight(short_, channel, end, static_cast<uint32_t>(payload + sizeof(Word)));
}

template <class Fill>
[[gnu::always_inline]] inline void FastPath::make_cold(Channel& channel, uint32_t next, uint32_t id,
                                                       uint32_t length, Fill fill) {
    channel.sending.last_put = next - 1;
    fill(cold_.frame + sizeof(Word));
    const Word word = channel.sending.path.cold_word(FrameKind::kActiveMessage, id, length,
                                                     channel.receiving.path.credit());
    memcpy(cold_.frame, &word, sizeof(word));
    cold_.piece.length = uint32_t{sizeof(Word)} + length;
    cold_.request.wr_id = channel.tag | next;
}

[[gnu::always_inline]] inline void FastPath::sent_cold(Channel& channel) {
    channel.sending.path.sent_cold();
    channel.sending.allowance.sent();
    channel.receiving.path.credit_sent();
    ++counters_.sent_cold;
    ++counters_.shorts;
}

[[gnu::always_inline]] inline void FastPath::sent_straight(Channel& channel, uint32_t length) {
    channel.sends.posted_unsignaled(1);
    channel.sending.path.sent_straight(in_steps(length));
    channel.sending.stalled = false;
    channel.receiving.path.credit_sent();
}

template <class Fill>
[[gnu::always_inline]] inline Status FastPath::am_short(Channel& channel, uint32_t id,
                                                        uint32_t length, Fill fill) {
    if (!takes_usual(channel, length)) [[unlikely]]
        return am_short_slow(channel, id, length, fill);
    return am_usual(channel, id, length, fill);
}

template <class Fill>
[[gnu::always_inline]] inline Status FastPath::am_usual(Channel& channel, uint32_t id,
                                                        uint32_t length, Fill fill) {
    make_short(channel, id, length, fill);
    short_.request.wr_id = channel.tag | channel.sends.next();
    if (ibv_post_send(channel.qp.get(), &short_.request, &bad_) != 0) [[unlikely]]
        return requests_.on_refused(channel);
    sent_straight(channel, length);
    ++usual_;
    return Status::kOk;
}

template <class Fill>
[[gnu::always_inline]] inline Status FastPath::put_am_usual(Channel& channel,
                                                            std::span<const std::byte> data,
                                                            uint64_t to, uint32_t rkey,
                                                            uint64_t& puts, uint32_t id,
                                                            uint32_t length, Fill fill) {
    const uint32_t next = channel.sends.next();
    make_cold(channel, next + 1, id, length, fill);
    ibv_send_wr& request = put_.set_usual(data, to, rkey);
    request.wr_id = channel.tag | next;
    if (ibv_post_send(channel.qp.get(), &request, &bad_) != 0) [[unlikely]]
        return on_refused_put(channel, puts);
    channel.sends.posted_unsignaled(2);
    ++puts;
    sent_cold(channel);
    return Status::kOk;
}

template <class Fill>
[[gnu::noinline]] Status FastPath::put_am(Channel& channel, const Put& put, uint64_t& puts,
                                          uint32_t id, uint32_t length, Fill fill) {
    if (!takes_put(channel)) {
        if (put.buffer != nullptr) pool_.give(put.buffer);
        return Status::kNoResource;
    }
    make_cold(channel, channel.sends.next() + 1, id, length, fill);
    const bool signaled = put.cookie != nullptr || channel.sends.idle();
    ibv_send_wr& request = put_.set(put, signaled);
    request.wr_id = channel.tag | channel.sends.next();
    const bool refused = ibv_post_send(channel.qp.get(), &request, &bad_) != 0;
    put_.make_usual();
    if (refused && bad_ != &cold_.request) [[unlikely]] {
        if (put.buffer != nullptr) pool_.give(put.buffer);
        return requests_.on_refused(channel);
    }
    channel.sends.posted(signaled, true);
    ++puts;
    if (put.buffer != nullptr) put.buffer->holder = channel.tag;
    if (put.buffer != nullptr || (put.cookie != nullptr && !refused))
        channel.sends.record(put.buffer, put.cookie);
    if (refused) [[unlikely]] {
        bad_ = nullptr;
        return requests_.on_refused(channel);
    }
    channel.sends.posted(false, true);
    sent_cold(channel);
    return Status::kOk;
}

// In all other cases.
template <class Fill>
[[gnu::noinline]] Status FastPath::am_short_slow(Channel& channel, uint32_t id, uint32_t length,
                                                 Fill fill) {
    bool marks = false;
    if (batches_.suits(channel, length)) {
        if (batches_.take(channel, id, length, fill)) return Status::kOk;
        if (takes_usual(channel, length)) return am_usual(channel, id, length, fill);
        marks = Batches::mark_due(channel);
        if (marks && channel.sends.takes_data() && goes_straight(channel, length))
            return am_mark(channel, id, length, fill);
    }
    if (!channel.sends.takes_data()) [[unlikely]] {
        const Status waits = early_.message(channel, id, [&](std::byte* to) {
            fill(to);
            return length;
        });
        counters_.shorts += waits == Status::kOk;
        return waits;
    }
    const SendPath::Choice choice = blocks_.choose(channel, length);
    if (PeerBlocks::refuses(choice)) [[unlikely]]
        return blocks_.on_refused(channel, choice);
    alignas(64) std::byte bytes[sizeof(Word) + engine_limits::kInline];
    memset(bytes + padded(length), 0, sizeof(Word));
    fill(bytes + sizeof(Word));
    const bool hot = choice.route == SendPath::Route::kBlock;
    ibv_sge piece{
        .addr = address_of(bytes) + begin_of(hot), .length = frame_length(hot, length), .lkey = 0};
    const Status status =
        post_frame(channel, choice, id, length, &piece, 1,
                   IBV_SEND_INLINE | (marks ? IBV_SEND_SIGNALED : 0), nullptr, nullptr);
    if (marks && status == Status::kOk) batches_.set_mark(channel);
    ++counters_.shorts;
    if (!hot) blocks_.on_detour(channel, length);
    return status;
}

[[gnu::always_inline]] inline Status FastPath::post_packed(Channel& channel, uint32_t id,
                                                           uint32_t length,
                                                           SendPool::Buffer& buffer) {
    channel.sending.last_bcopy = length;
    clear_padding(payload_of(buffer) + length);
    if (!is_usual(channel, length)) [[unlikely]]
        return post_packed_slow(channel, id, length, buffer);
    const auto body = static_cast<uint32_t>(padded(size_t{length}) + sizeof(Word));
    std::byte* const payload = payload_of(buffer);
    const Word word = straight_word(channel, id, length);
    memcpy(payload + body - sizeof(Word), &word, sizeof(word));
    const bool at_once = body <= max_inline_;
    copy_.piece.addr = address_of(payload);
    copy_.piece.lkey = buffer.lkey;
    copy_.request.send_flags = at_once ? unsigned{IBV_SEND_INLINE} : 0;
    copy_.request.wr_id = channel.tag | channel.sends.next();
    aim_straight(copy_, channel, channel.sending.path.straight_end(), body);
    if (ibv_post_send(channel.qp.get(), &copy_.request, &bad_) != 0) [[unlikely]] {
        pool_.give(&buffer);
        return requests_.on_refused(channel);
    }
    sent_straight(channel, length);
    ++usual_copies_;
    if (at_once) {
        pool_.give(&buffer);
    } else {
        buffer.holder = channel.tag;
        channel.sends.record(&buffer, nullptr);
    }
    return Status::kOk;
}

template <class Pack>
Status FastPath::am_bcopy(Channel& channel, uint32_t id, Pack&& pack, uint32_t& length) {
    if (!channel.sends.takes_data()) [[unlikely]] {
        const Status waits = early_.message(
            channel, id, [&](std::byte* to) { return length = pack(static_cast<void*>(to)); });
        counters_.bcopies += waits == Status::kOk;
        return waits;
    }
    // `pack` may be called only once, and the length is not known before: the last length serves as
    // a guess. If the block has no room for the actual length, the frame goes cold.
    if (!expects_usual(channel)) [[unlikely]] {
        const SendPath::Choice guess = blocks_.choose_unknown(channel);
        if (PeerBlocks::refuses(guess) && !early_.is_urgent(id, guess)) [[unlikely]]
            return blocks_.on_refused(channel, guess);
    }
    SendPool::Buffer* const buffer = pool_.take();
    if (buffer == nullptr) [[unlikely]]
        return room_.no_buffer();
    length = pack(static_cast<void*>(payload_of(*buffer)));
    return post_packed(channel, id, length, *buffer);
}

inline Status FastPath::am_zcopy(Channel& channel, uint32_t id, std::span<const std::byte> header,
                                 std::span<const ibv_sge> user, void* cookie) {
    if (!channel.sends.takes_data()) [[unlikely]] {
        const Status waits = early_.gathered_message(channel, id, header, user);
        counters_.zcopies += waits == Status::kOk;
        return waits;
    }
    uint32_t size = static_cast<uint32_t>(header.size());
    for (const ibv_sge& piece : user) size += piece.length;
    const SendPath::Choice choice = blocks_.choose(channel, size);
    if (PeerBlocks::refuses(choice)) [[unlikely]]
        return blocks_.on_refused(channel, choice);
    SendPool::Buffer* buffer = pool_.take();
    if (buffer == nullptr) [[unlikely]]
        return room_.no_buffer();
    const bool hot = choice.route == SendPath::Route::kBlock;
    // [head, header] and [padding, tail] are in `buffer`; the device gathers the rest from the
    // user's memory.
    ibv_sge pieces[engine_limits::kPieces];
    const auto front = static_cast<uint32_t>(sizeof(Word) + header.size());
    if (!header.empty()) memcpy(buffer->data + sizeof(Word), header.data(), header.size());
    int count = add_front(pieces, *buffer, front, hot);
    for (const ibv_sge& piece : user)
        if (piece.length != 0) pieces[count++] = piece;
    if (hot)
        pieces[count++] = tail_piece(*buffer, clear_padding(buffer->data + padded(front)), size);
    const bool at_once = frame_length(hot, size) <= max_inline_;
    const Status status = post_frame(channel, choice, id, size, pieces, count,
                                     at_once ? IBV_SEND_INLINE : IBV_SEND_SIGNALED,
                                     at_once ? nullptr : buffer, at_once ? nullptr : cookie);
    ++counters_.zcopies;
    if (!hot) blocks_.on_detour(channel, size);
    if (at_once || status != Status::kOk) pool_.give(buffer);
    return at_once || status != Status::kOk ? status : Status::kInProgress;
}

// Posts a frame on the chosen path. `pieces` are the whole frame, with its word, which is written
// here: at the begin of the first piece or, for a block, at the end of the last.
inline Status FastPath::post_frame(Channel& channel, const SendPath::Choice& choice, uint32_t id,
                                   uint32_t length, ibv_sge* pieces, int count, unsigned flags,
                                   SendPool::Buffer* buffer, void* cookie) {
    Channel::Sending& sending = channel.sending;
    const uint16_t credit = channel.receiving.path.credit();
    if (choice.route == SendPath::Route::kBlock) {
        TERN_ASSERT(choice.plan.fits);
        const ibv_sge& end = pieces[count - 1];
        *reinterpret_cast<uint64_t*>(end.addr + end.length - sizeof(uint64_t)) =
            sending.path.block_word(choice.plan, FrameKind::kActiveMessage, id, length, credit)
                .raw();
        if (choice.plan.wrap && !blocks_.post_wrap(channel, choice.plan.wrap_at))
            return Status::kDevice;
        ibv_send_wr& request = requests_.prepare(IBV_WR_RDMA_WRITE, pieces, count, flags);
        aim_at_block(request, sending.notify,
                     sending.block_address + (choice.plan.end - BlockWriter::body(length)),
                     sending.block_rkey);
        if (!requests_.post(channel, request, true)) return Status::kDevice;
        sending.path.sent_block(choice.plan);
        sending.stalled = false;
        ++counters_.sent_hot;
    } else {
        *reinterpret_cast<uint64_t*>(pieces[0].addr) =
            sending.path.cold_word(FrameKind::kActiveMessage, id, length, credit).raw();
        if (!requests_.post(channel, requests_.prepare(IBV_WR_SEND, pieces, count, flags), true))
            return Status::kDevice;
        sending.path.sent_cold();
        sending.allowance.sent();
        ++counters_.sent_cold;
    }
    channel.receiving.path.credit_sent();
    if (buffer != nullptr) buffer->holder = channel.tag;
    if (buffer != nullptr || cookie != nullptr) channel.sends.record(buffer, cookie);
    return Status::kOk;
}

template <class Fill>
Status FastPath::am_gathered(Channel& channel, uint32_t id, uint32_t header, Fill&& fill,
                             std::span<const Piece> pieces, void* cookie) {
    if (!channel.sends.takes_data()) return room_.no_place(channel);
    uint32_t size = header;
    for (const Piece& piece : pieces) size += piece.memory.length;
    const SendPath::Choice choice = blocks_.choose(channel, size);
    if (PeerBlocks::refuses(choice)) return blocks_.on_refused(channel, choice);
    SendPool::Buffer* const buffer = pool_.take();
    if (buffer == nullptr) return room_.no_buffer();
    const bool hot = choice.route == SendPath::Route::kBlock;
    // In `buffer`: [head], header, [padding, tail], copied pieces.
    const auto front = static_cast<uint32_t>(sizeof(Word) + header);
    std::byte* const tail = clear_padding(buffer->data + padded(front));
    std::byte* copy = tail + Word::kUnit + sizeof(Word);
    fill(buffer->data + sizeof(Word));
    ibv_sge all[engine_limits::kPieces];
    int count = add_front(all, *buffer, front, hot);
    for (const Piece& piece : pieces) {
        all[count] = piece.memory;
        if (piece.copied) {
            memcpy(copy, reinterpret_cast<const void*>(piece.memory.addr), piece.memory.length);
            all[count].addr = address_of(copy);
            all[count].lkey = buffer->lkey;
            copy += piece.memory.length;
        }
        ++count;
    }
    if (hot) all[count++] = tail_piece(*buffer, tail, size);
    const Status status =
        post_frame(channel, choice, id, size, all, count, IBV_SEND_SIGNALED, buffer, cookie);
    ++counters_.zcopies;
    if (!hot) blocks_.on_detour(channel, size);
    if (status != Status::kOk) pool_.give(buffer);
    return status != Status::kOk ? status : Status::kInProgress;
}

}  // namespace tern
