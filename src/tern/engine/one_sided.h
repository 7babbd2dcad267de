// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>

#include <span>

#include "tern/engine/counters.h"
#include "tern/engine/early_sends.h"
#include "tern/engine/parts.h"
#include "tern/engine/poll_budget.h"
#include "tern/engine/repeated_puts.h"
#include "tern/engine/send_pool.h"
#include "tern/engine/work_requests.h"

namespace tern {

// Puts, gets, atomics and fences of the user, and the RDMA writes and reads of the layer above.
// While a connection is being made, puts, atomics and fences wait as copies (EarlySends). Data
// path.
//
// All functions return kNoResource if the caller is to try again after some progress.
class OneSided {
  public:
    explicit OneSided(const EngineParts& parts);

    // Copies the bytes, at most Engine::max_inline(), into the work request.
    Status put_short(Channel& channel, const void* data, uint32_t length, uint64_t to,
                     uint32_t rkey);
    // put_short(), and then a put of `word`, by one call of the device; by one request if the
    // word's place is behind the data's and the peer's device promises the order of bytes. `data`
    // and the word have at most Engine::max_inline() bytes. kNoResource: nothing is sent, and the
    // two may still be sent one after the other.
    Status put_word_short(Channel& channel, std::span<const std::byte> data, uint64_t to,
                          uint64_t word_to, uint64_t word, uint32_t rkey);
    // A put of registered bytes, and of a word.
    struct WordPut {
        ibv_sge from;
        uint64_t to;
        uint64_t word_to;
        uint64_t word;
        uint32_t rkey;
        SendPool::Buffer* copy = nullptr;  // whose bytes `from` is; given back, or ...
        void* cookie = nullptr;            // ... reported, when `from` may be used again
    };
    // Posts a put of data and of a word behind them, like put_word_short(). It is one request only
    // if both places are multiples of 8, because packets end at such bytes. kNoResource: the buffer
    // is given back, too.
    Status put_word(Channel& channel, const WordPut& put);
    // For the data of a put_word(). Null: none is free now.
    SendPool::Buffer* take_buffer() { return pool_.take(); }
    // Posts a put of data that `pack` writes, like FastPath::am_bcopy().
    template <class Pack>
    Status put_bcopy(Channel& channel, Pack&& pack, uint32_t& length, uint64_t to, uint32_t rkey);

    // A put or get of registered memory. `cookie` is reported when it is over; that of a get
    // decrements channel.replies. The channel must have room: has_room_in_place().
    static bool has_room_in_place(const Channel& channel) {
        return channel.sends.room() > channel.transfer_reserve;
    }
    Status put_in_place(Channel& channel, const ibv_sge& from, uint64_t to, uint32_t rkey,
                        void* cookie);
    // An operation of several work requests has not found its places. Returns kNoResource.
    [[gnu::cold]] Status no_places(Channel& channel, uint32_t count) {
        channel.refused_places = count;
        if (channel.up()) requests_.report_all(channel);
        return room_.no_place(channel);
    }
    Status get_in_place(Channel& channel, const ibv_sge& to, uint64_t from, uint32_t rkey,
                        void* cookie);
    // A get of at most segment_size bytes into a buffer of the send pool, which the handler of
    // `cookie` gives back.
    Status get_copy(Channel& channel, uint32_t length, uint64_t from, uint32_t rkey, void* cookie,
                    SendPool::Buffer*& buffer);
    void give_back(SendPool::Buffer* buffer) { pool_.give(buffer); }

    // An atomic operation; `result`: 8 bytes for the old value. The handler of `cookie` decrements
    // channel.replies.
    Status atomic(Channel& channel, ibv_wr_opcode opcode, ibv_sge& result, uint64_t compare_add,
                  uint64_t swap, uint64_t to, uint32_t rkey, void* cookie);
    // Work requests posted from now on begin when all reads and atomics before them are complete.
    // False: there is no room now, or the channel has failed.
    bool fence(Channel& channel);

    // PeerBlocks::fence() on all channels. False: that does not suffice (PeerBlocks::orders_puts).
    bool fence_all();

    // For the layer above: an RDMA write of a word. Its loss does not count as the user's.
    Status write_word(Channel& channel, uint64_t word, uint64_t to, uint32_t rkey);
    // An RDMA write of `pieces`, with immediate data if that is not 0. `cookie`, if any, is
    // reported when the pieces may be used again.
    Status write(Channel& channel, std::span<ibv_sge> pieces, uint64_t to, uint32_t rkey,
                 uint32_t immediate, void* cookie);
    // An RDMA read into `pieces`. The handler of `cookie` decrements channel.replies.
    Status read(Channel& channel, std::span<ibv_sge> pieces, uint64_t from, uint32_t rkey,
                void* cookie);

    // For EarlySends. post_copy(): a put from `buffer`. True: the buffer is given back when the put
    // is complete. False: it may be given back now.
    bool post_copy(Channel& channel, uint32_t length, uint64_t to, uint32_t rkey,
                   SendPool::Buffer& buffer);
    bool post_atomic(Channel& channel, ibv_wr_opcode opcode, ibv_sge& result, uint64_t compare_add,
                     uint64_t swap, uint64_t to, uint32_t rkey, void* cookie);

    // For puts that FastPath posts; one of registered memory ends with a completion.
    uint64_t& puts() { return counters_.puts; }
    void posted_in_place() {
        budget_.end();
        ++counters_.in_place;
    }
    // Puts whose messages repeat earlier ones.
    RepeatedPuts& repeated() { return repeated_; }
    const RepeatedPuts& repeated() const { return repeated_; }
    const OneSidedCounters& counters() const { return counters_; }

  private:
    // The work request of a put or get of one piece, prepared but for what differs between them.
    struct Access {
        Access() {
            request.sg_list = &piece;
            request.num_sge = 1;
        }
        Access(const Access&) = delete;
        Access& operator=(const Access&) = delete;

        alignas(64) ibv_send_wr request{};
        ibv_sge piece{};
    };

    // The prepared work requests of a put and a word: `put` has the data, and also the word if
    // there is no `then`.
    struct WordWrite {
        WordWrite() {
            pieces[1].addr = address_of(&value);
            pieces[1].length = sizeof value;
            put.opcode = then.opcode = IBV_WR_RDMA_WRITE;
            make_short();
            then.sg_list = &pieces[1];
            then.num_sge = 1;
            then.send_flags = IBV_SEND_INLINE;
        }
        WordWrite(const WordWrite&) = delete;
        WordWrite& operator=(const WordWrite&) = delete;
        // What put_word_short() relies on.
        void make_short() { put.sg_list = &pieces[0]; }

        alignas(64) ibv_send_wr put{};
        ibv_send_wr then{};
        ibv_sge pieces[2]{};
        uint64_t value = 0;
    };

    bool access(Channel& channel, ibv_wr_opcode opcode, unsigned flags, const ibv_sge& piece,
                uint64_t remote, uint32_t rkey);
    Status get(Channel& channel, const ibv_sge& to, uint64_t from, uint32_t rkey, void* cookie);
    Status put_short_slow(Channel& channel, const void* data, uint32_t length, uint64_t to,
                          uint32_t rkey);
    Status put_word_short_signaled(Channel& channel, std::span<const std::byte> data, uint64_t to,
                                   uint64_t word_to, uint64_t word, uint32_t rkey);
    [[gnu::always_inline]] Status post_word_short(Channel& channel, std::span<const std::byte> data,
                                                  uint64_t to, uint64_t word_to, uint64_t word,
                                                  uint32_t rkey, unsigned signal);

    Access access_;
    WordWrite word_;
    OneSidedCounters counters_;
    uint32_t max_inline_;
    SendPool& pool_;
    WorkRequests& requests_;
    EarlySends& early_;
    SendRoom& room_;
    PollBudget& budget_;
    RepeatedPuts repeated_;
    PeerBlocks& blocks_;
};

// An RDMA write or read of one piece. The send queue must have room, and a signaled work request
// must not be due unless this one is.
[[gnu::always_inline]] inline bool OneSided::access(Channel& channel, ibv_wr_opcode opcode,
                                                    unsigned flags, const ibv_sge& piece,
                                                    uint64_t remote, uint32_t rkey) {
    WorkRequests::post_held(channel);
    TERN_ASSERT(channel.sends.room() != 0);
    access_.piece = piece;
    if (opcode == IBV_WR_RDMA_WRITE) channel.sending.last_put = channel.sends.next();
    access_.request.wr_id = channel.tag | channel.sends.next();
    access_.request.opcode = opcode;
    access_.request.send_flags = flags;
    access_.request.wr.rdma.remote_addr = remote;
    access_.request.wr.rdma.rkey = rkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(channel.qp.get(), &access_.request, &bad) != 0) [[unlikely]] {
        (void)requests_.on_refused(channel);
        return false;
    }
    channel.sends.posted((flags & IBV_SEND_SIGNALED) != 0, true);
    return true;
}

[[gnu::always_inline]] inline Status OneSided::put_in_place(Channel& channel, const ibv_sge& from,
                                                            uint64_t to, uint32_t rkey,
                                                            void* cookie) {
    if (!access(channel, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, from, to, rkey)) [[unlikely]]
        return Status::kDevice;
    channel.sends.record(nullptr, cookie);
    ++counters_.puts;
    posted_in_place();
    return Status::kOk;
}

[[gnu::always_inline]] inline Status OneSided::get_in_place(Channel& channel, const ibv_sge& to,
                                                            uint64_t from, uint32_t rkey,
                                                            void* cookie) {
    const Status posted = get(channel, to, from, rkey, cookie);
    if (posted == Status::kOk) [[likely]]
        ++counters_.in_place;
    return posted;
}

[[gnu::always_inline]] inline Status OneSided::get(Channel& channel, const ibv_sge& to,
                                                   uint64_t from, uint32_t rkey, void* cookie) {
    if (!access(channel, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, to, from, rkey)) [[unlikely]]
        return Status::kDevice;
    ++channel.replies;
    channel.sends.record(nullptr, cookie);
    budget_.end();
    ++counters_.gets;
    return Status::kOk;
}

[[gnu::always_inline]] inline Status OneSided::get_copy(Channel& channel, uint32_t length,
                                                        uint64_t from, uint32_t rkey, void* cookie,
                                                        SendPool::Buffer*& buffer) {
    if (!channel.sends.takes_data()) [[unlikely]]
        return room_.no_place(channel);
    buffer = pool_.take();
    if (buffer == nullptr) [[unlikely]]
        return room_.no_buffer();
    const ibv_sge piece{.addr = address_of(buffer->data), .length = length, .lkey = buffer->lkey};
    const Status posted = get(channel, piece, from, rkey, cookie);
    if (posted != Status::kOk) [[unlikely]]
        pool_.give(buffer);
    return posted;
}

[[gnu::always_inline]] inline Status OneSided::put_short(Channel& channel, const void* data,
                                                         uint32_t length, uint64_t to,
                                                         uint32_t rkey) {
    if (!channel.sends.takes_unsignaled() || length == 0) [[unlikely]]
        return put_short_slow(channel, data, length, to, rkey);
    ++counters_.puts;
    const ibv_sge piece{.addr = address_of(data), .length = length, .lkey = 0};
    return access(channel, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE | signal_first(channel), piece, to,
                  rkey)
               ? Status::kOk
               : Status::kDevice;
}

template <class Pack>
Status OneSided::put_bcopy(Channel& channel, Pack&& pack, uint32_t& length, uint64_t to,
                           uint32_t rkey) {
    if (!channel.sends.takes_data()) [[unlikely]] {
        const Status waits = early_.write(channel, to, rkey, [&](std::byte* at) {
            return length = pack(static_cast<void*>(at));
        });
        counters_.puts += waits == Status::kOk;
        return waits;
    }
    SendPool::Buffer* buffer = pool_.take();
    if (buffer == nullptr) [[unlikely]]
        return room_.no_buffer();
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
    buffer->holder = channel.tag;
    channel.sends.record(buffer, nullptr);
    return Status::kOk;
}

inline Status OneSided::atomic(Channel& channel, ibv_wr_opcode opcode, ibv_sge& result,
                               uint64_t compare_add, uint64_t swap, uint64_t to, uint32_t rkey,
                               void* cookie) {
    if (!channel.sends.takes_data()) [[unlikely]] {
        const Status waits = early_.atomic(channel, {.kind = Backlog::Kind::kAtomic,
                                                     .rkey = rkey,
                                                     .to = to,
                                                     .cookie = cookie,
                                                     .opcode = opcode,
                                                     .compare_add = compare_add,
                                                     .swap = swap,
                                                     .result = result});
        channel.replies += waits == Status::kOk;
        return waits;
    }
    if (!post_atomic(channel, opcode, result, compare_add, swap, to, rkey, cookie)) [[unlikely]]
        return Status::kDevice;
    ++channel.replies;
    return Status::kOk;
}

inline bool OneSided::post_atomic(Channel& channel, ibv_wr_opcode opcode, ibv_sge& result,
                                  uint64_t compare_add, uint64_t swap, uint64_t to, uint32_t rkey,
                                  void* cookie) {
    ibv_send_wr& request = requests_.prepare(opcode, &result, 1, IBV_SEND_SIGNALED);
    request.wr.atomic.remote_addr = to;
    request.wr.atomic.compare_add = compare_add;
    request.wr.atomic.swap = swap;
    request.wr.atomic.rkey = rkey;
    if (!requests_.post(channel, request, true)) return false;
    channel.sends.record(nullptr, cookie);
    ++counters_.atomics;
    return true;
}

inline Status OneSided::write_word(Channel& channel, uint64_t word, uint64_t to, uint32_t rkey) {
    if (!channel.sends.takes_data()) return room_.no_place(channel);
    return requests_.write_inline(channel, &word, sizeof(word), to, rkey, false) ? Status::kOk
                                                                                 : Status::kDevice;
}

inline Status OneSided::write(Channel& channel, std::span<ibv_sge> pieces, uint64_t to,
                              uint32_t rkey, uint32_t immediate, void* cookie) {
    if (!has_room_in_place(channel)) return room_.no_place(channel);
    ibv_send_wr& request = requests_.prepare(
        immediate != 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, pieces.data(),
        static_cast<int>(pieces.size()), cookie != nullptr ? IBV_SEND_SIGNALED : 0);
    request.imm_data = htonl(immediate);
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = rkey;
    channel.sending.last_put = channel.sends.next();
    if (!requests_.post(channel, request, true)) return Status::kDevice;
    if (cookie == nullptr) return Status::kOk;
    channel.sends.record(nullptr, cookie);
    budget_.end();
    return Status::kOk;
}

inline Status OneSided::read(Channel& channel, std::span<ibv_sge> pieces, uint64_t from,
                             uint32_t rkey, void* cookie) {
    if (!has_room_in_place(channel)) return room_.no_place(channel);
    ibv_send_wr& request = requests_.prepare(IBV_WR_RDMA_READ, pieces.data(),
                                             static_cast<int>(pieces.size()), IBV_SEND_SIGNALED);
    request.wr.rdma.remote_addr = from;
    request.wr.rdma.rkey = rkey;
    if (!requests_.post(channel, request, true)) return Status::kDevice;
    ++channel.replies;
    channel.sends.record(nullptr, cookie);
    budget_.end();
    return Status::kOk;
}

}  // namespace tern
