// SPDX-License-Identifier: BSD-3-Clause
// The data path of puts and gets: inline members of Rma.
#pragma once

#include "common/assert.h"
#include "tern/engine/engine.h"
#include "tern/uct/rma.h"

namespace tern {

inline ibv_sge piece_of(const Rma::Memory& memory, uint32_t lkey) {
    return {.addr = address_of(memory.pieces.front().at),
            .length = static_cast<uint32_t>(memory.length),
            .lkey = lkey};
}

[[gnu::always_inline]] inline std::optional<Status> Rma::put(Channel& channel, const Memory& from,
                                                             const Remote& to, const ibv_mr* open,
                                                             void* cookie) {
    if (to.rkey == 0) return std::nullopt;
    if (from.length >= kLeastOpen) return put_longer(channel, from, to, open, cookie);
    return put_copy(channel, from, to);
}

[[gnu::always_inline]] inline std::optional<Status> Rma::get(Channel& channel, const Memory& to,
                                                             const Remote& from, const ibv_mr* open,
                                                             void* cookie) {
    if (from.rkey == 0) return std::nullopt;
    if (to.length >= kLeastOpen && open != nullptr && is_open(channel, to, kLocalWrite))
        return get_open(channel, piece_of(to, open->lkey), from, cookie);
    if (to.length >= least_in_place_)
        if (const auto posted = in_place<true>(channel, to, from, cookie)) return posted;
    if (!is_short(channel, to.length)) return std::nullopt;
    return get_short(channel, to, from, cookie);
}

[[gnu::always_inline]] inline std::optional<Status> Rma::get(Channel& channel, size_t length,
                                                             const Remote& from, Unpack unpack,
                                                             void* argument, void* cookie) {
    if (from.rkey == 0 || !is_short(channel, length)) [[unlikely]]
        return std::nullopt;
    return copy(channel, length, from, unpack, argument, cookie);
}

// Null: no memory.
[[gnu::always_inline]] inline Rma::Operation* Rma::take(Channel& channel, void* cookie) {
    Operation* const operation = free_ != nullptr ? free_ : grow();
    if (operation == nullptr) [[unlikely]]
        return nullptr;
    free_ = operation->next;
    operation->channel = &channel;
    operation->cookie = cookie;
    return operation;
}

// Reads into a buffer of the send pool.
[[gnu::always_inline]] inline Status Rma::copy(Channel& channel, size_t length, const Remote& from,
                                               Unpack unpack, void* argument, void* cookie) {
    Operation* const operation = take(channel, cookie);
    if (operation == nullptr) [[unlikely]]
        return Status::kNoResource;
    operation->unpack = unpack;
    operation->argument = argument;
    operation->reads = true;
    operation->length = static_cast<uint32_t>(length);
    const Status posted =
        engine_.one_sided()->get_copy(channel, operation->length, from.address, from.rkey,
                                      make_cookie(CookieKind::kRma, operation), operation->buffer);
    if (posted == Status::kOk) [[likely]] {
        ++under_way_;
        return Status::kInProgress;
    }
    give(*operation);
    return posted;
}

// Returns nothing if there is no room now: the operation then becomes a transfer, which waits.
// post(piece, cookie) posts it.
template <bool reads, class Post>
[[gnu::always_inline]] inline std::optional<Status> Rma::in_pin(Channel& channel,
                                                                const Memory& memory, void* cookie,
                                                                Post&& post) {
    if (memory.pieces.size() != 1 || memory.length > kLongestInPlace ||
        !OneSided::has_room_in_place(channel) || channel.transfers != 0) [[unlikely]]
        return std::nullopt;
    std::byte* const at = memory.pieces.front().at;
    const auto pin = pins_.find(at, memory.length, reads ? kLocalWrite : kLocalRead);
    if (!pin) return std::nullopt;
    Operation* operation = take(channel, cookie);
    if (operation == nullptr) [[unlikely]] {
        pins_.release(pin);
        return std::nullopt;
    }
    operation->reads = reads;
    operation->pin = pin;
    const ibv_sge piece{.addr = address_of(at),
                        .length = static_cast<uint32_t>(memory.length),
                        .lkey = pin.pin->lkey()};
    const Status posted = post(piece, make_cookie(CookieKind::kRma, operation));
    if (posted == Status::kOk) [[likely]] {
        ++under_way_;
        return Status::kInProgress;
    }
    pins_.release(std::exchange(operation->pin, {}));
    give(*operation);
    return posted;
}

template <bool reads>
[[gnu::always_inline]] inline std::optional<Status> Rma::in_place(Channel& channel,
                                                                  const Memory& memory,
                                                                  const Remote& remote,
                                                                  void* cookie) {
    return in_pin<reads>(
        channel, memory,
        cookie, [&](const ibv_sge& piece, void* own) __attribute__((always_inline)) {
            return reads ? engine_.one_sided()->get_in_place(channel, piece, remote.address,
                                                             remote.rkey, own)
                         : engine_.one_sided()->put_in_place(channel, piece, remote.address,
                                                             remote.rkey, own);
        });
}

template <class Post>
std::optional<Status> Rma::put_by(Channel& channel, const Memory& from, const ibv_mr* open,
                                  void* cookie, Post&& post) {
    if (open != nullptr && from.length >= kLeastOpen && is_open(channel, from, 0)) {
        const Status posted = post(piece_of(from, open->lkey), cookie);
        return posted == Status::kOk ? Status::kInProgress : posted;
    }
    return from.length > segment_ ? in_pin<false>(channel, from, cookie, post) : std::nullopt;
}

template <class Post>
std::optional<Status> Rma::send_by(Channel& channel, const Memory& from, void* cookie,
                                   Post&& post) {
    if (from.length < least_in_place_) return std::nullopt;
    const auto posted = in_pin<false>(channel, from, cookie, post);
    if (posted || !pin(from, kLocalRead)) return posted;
    return in_pin<false>(channel, from, cookie, post);
}

// Returns the user's cookie.
[[gnu::always_inline]] inline void* Rma::done(void* cookie, bool good) {
    auto& operation = owner_of<Operation>(cookie);
    TERN_ASSERT(under_way_ != 0);
    TERN_ASSERT(operation.pin || operation.buffer != nullptr || operation.reads);
    --under_way_;
    TERN_ASSERT(!operation.reads || operation.channel->replies != 0);
    if (operation.reads) --operation.channel->replies;
    if (operation.pin) {
        pins_.release(std::exchange(operation.pin, {}));
    } else if (operation.buffer != nullptr) {  // not into open memory
        if (good) [[likely]]
            operation.unpack(operation.argument, operation.buffer->data, operation.length);
        else if (operation.unpack == to_pieces)
            give(*static_cast<Scattered*>(operation.argument));
        engine_.one_sided()->give_back(operation.buffer);
    }
    void* const users = operation.cookie;
    give(operation);
    return users;
}

}  // namespace tern
