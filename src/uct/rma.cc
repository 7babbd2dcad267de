// SPDX-License-Identifier: BSD-3-Clause
#include "uct/rma.h"

#include <new>
#include <utility>

#include "engine/engine_send.h"

namespace tern {

// Copies so few bytes that asking whether they are pinned would cost more.
std::optional<Status> Rma::put(Channel& channel, const Memory& from, const Remote& to,
                               void* cookie) {
    if (to.rkey == 0) return std::nullopt;
    if (from.length > engine_.settings().segment_size)
        return in_place(channel, from, to, false, cookie);
    uint32_t length = 0;
    return engine_.put_bcopy(
        channel,
        [&](void* at) {
            Buffers(from.pieces).read(static_cast<std::byte*>(at), from.length);
            return static_cast<uint32_t>(from.length);
        },
        length, to.address, to.rkey);
}

std::optional<Status> Rma::get(Channel& channel, const Memory& to, const Remote& from,
                               void* cookie) {
    if (!is_short(channel, to.length, from.rkey)) return in_place(channel, to, from, true, cookie);
    Operation* operation = take(channel, cookie);
    if (operation == nullptr) return Status::kNoResource;
    operation->unpack = nullptr;
    operation->to = Buffers(to.pieces);
    return copy(*operation, to.length, from);
}

std::optional<Status> Rma::get(Channel& channel, size_t length, const Remote& from, Unpack unpack,
                               void* argument, void* cookie) {
    if (!is_short(channel, length, from.rkey)) return std::nullopt;
    Operation* operation = take(channel, cookie);
    if (operation == nullptr) return Status::kNoResource;
    operation->unpack = unpack;
    operation->argument = argument;
    return copy(*operation, length, from);
}

// Null: no memory.
Rma::Operation* Rma::take(Channel& channel, void* cookie) {
    if (free_.empty()) {
        try {
            free_.reserve(operations_.size() + 1);  // so that done() does not allocate
            free_.push_back(&operations_.emplace_back());
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    Operation* operation = free_.back();
    free_.pop_back();
    operation->channel = &channel;
    operation->cookie = cookie;
    return operation;
}

// Reads into a buffer of the send pool.
Status Rma::copy(Operation& operation, size_t length, const Remote& from) {
    operation.reads = true;
    operation.length = static_cast<uint32_t>(length);
    const Status posted =
        engine_.read_copy(*operation.channel, operation.length, from.address, from.rkey,
                          make_cookie(CookieKind::kRma, &operation), operation.buffer);
    if (posted == Status::kOk) {
        ++under_way_;
        return Status::kInProgress;
    }
    free_.push_back(&operation);
    return posted;
}

// A refusal for lack of room is the transfers' matter, which wait for it.
std::optional<Status> Rma::in_place(Channel& channel, const Memory& memory, const Remote& remote,
                                    bool reads, void* cookie) {
    if (remote.rkey == 0 || memory.pieces.size() != 1 || memory.length > kLongest ||
        channel.sends.room() <= channel.transfer_reserve || channel.transfers != 0)
        return std::nullopt;
    std::byte* const at = memory.pieces.front().at;
    Pin* pin = pins_.find(at, memory.length, reads ? kLocalWrite : kLocalRead);
    if (pin == nullptr) return std::nullopt;
    Operation* operation = take(channel, cookie);
    if (operation == nullptr) {
        pins_.release(pin);
        return std::nullopt;
    }
    operation->reads = reads;
    operation->pin = pin;
    ibv_sge piece{.addr = address_of(at),
                  .length = static_cast<uint32_t>(memory.length),
                  .lkey = pin->lkey()};
    void* const own = make_cookie(CookieKind::kRma, operation);
    const Status posted =
        reads ? engine_.read(channel, {&piece, 1}, remote.address, remote.rkey, own)
              : engine_.write(channel, {&piece, 1}, remote.address, remote.rkey, 0, own);
    if (posted == Status::kOk) {
        ++under_way_;
        return Status::kInProgress;
    }
    pins_.release(std::exchange(operation->pin, nullptr));
    free_.push_back(operation);
    return posted;
}

void* Rma::done(void* cookie, bool good) {
    auto& operation = owner_of<Operation>(cookie);
    --under_way_;
    if (operation.reads) --operation.channel->replies;
    if (operation.pin != nullptr) {
        pins_.release(std::exchange(operation.pin, nullptr));
    } else {
        if (good && operation.unpack != nullptr)
            operation.unpack(operation.argument, operation.buffer->data, operation.length);
        else if (good)
            operation.to.write(operation.buffer->data, operation.length);
        engine_.give_back(operation.buffer);
    }
    void* const users = operation.cookie;
    free_.push_back(&operation);
    return users;
}

}  // namespace tern
