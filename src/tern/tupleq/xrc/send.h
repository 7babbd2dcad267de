// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The data path of sending: inline functions of DirectSender.

#include <arpa/inet.h>

#include <cstring>

#include "tern/engine/engine.h"
#include "tern/tupleq/xrc/messages.h"
#include "tern/tupleq/xrc/sender.h"

namespace tern {

inline bool DirectSender::may_send(const Tuple& tuple, uint64_t tag, uint64_t length) const {
    if (length > most_bytes_ || !tuple.may_send_direct(tag, length)) return false;
    const XrcLink* link = routes_[tuple.number].link;
    return link != nullptr && link->usable();
}

// The caller sets the pieces and flags of `request`. kNoResource: the grant has been taken back;
// the message is ordinary. On any other error the message has used its number.
inline Status DirectSender::post(Channel& channel, Tuple& tuple, ibv_send_wr& request,
                                 uint32_t length, SendPool::Buffer* buffer, Pin* pin,
                                 void* cookie) {
    const Route& route = routes_[tuple.number];
    TERN_ASSERT(route.link != nullptr && !channel.failed);
    XrcLink& link = *route.link;
    if (!tuple.sender.send_direct(length)) [[unlikely]]
        return Status::kNoResource;
    request.imm_data = htonl(to_immediate(route.nonce, tuple.sender.sequence()));
    const bool idle = link.idle();
    if (link.post(request, route.queue, {&channel, buffer, pin, cookie}) != 0) [[unlikely]] {
        engine_.fail(channel, Status::kDevice, "the device refuses a direct message");
        return Status::kDevice;
    }
    if (idle) ++link.host->holds;
    ++channel.holds;
    ++peers_.at(channel).posted;
    ++under_way_;
    ++counters_.sent;
    counters_.sent_bytes += length;
    return Status::kOk;
}

inline Status DirectSender::send(Channel& channel, Tuple& tuple, SendPool::Buffer* buffer,
                                 uint32_t length) {
    ibv_sge piece{.addr = address_of(buffer->data), .length = length, .lkey = buffer->lkey};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = length != 0 ? 1 : 0;
    const Status status = post(channel, tuple, request, length, buffer, nullptr, nullptr);
    if (status == Status::kOk) [[likely]]
        ++counters_.sent_copied;
    else if (status != Status::kNoResource)
        pool_.give(buffer);
    return status;
}

inline Status DirectSender::send(Channel& channel, Tuple& tuple, const void* data,
                                 uint32_t length) {
    if (length <= routes_[tuple.number].link->max_inline()) {
        ibv_sge piece{.addr = address_of(data), .length = length, .lkey = 0};
        ibv_send_wr request{};
        request.sg_list = &piece;
        request.num_sge = length != 0 ? 1 : 0;
        request.send_flags = IBV_SEND_INLINE;
        return post(channel, tuple, request, length, nullptr, nullptr, nullptr);
    }
    SendPool::Buffer* buffer = take_buffer();
    if (buffer == nullptr) [[unlikely]]
        return Status::kNoResource;
    memcpy(buffer->data, data, length);
    const Status status = send(channel, tuple, buffer, length);
    if (status == Status::kNoResource) [[unlikely]]
        pool_.give(buffer);
    return status;
}

inline Status DirectSender::send_zcopy(Channel& channel, Tuple& tuple, const void* data,
                                       uint32_t length, void* cookie) {
    Pin* pin = pins_.pin(data, length, kLocalRead);
    if (pin == nullptr) [[unlikely]] {
        ++counters_.unpinned;
        return Status::kNoResource;
    }
    ibv_sge piece{.addr = address_of(data), .length = length, .lkey = pin->lkey()};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    const Status status = post(channel, tuple, request, length, nullptr, pin, cookie);
    if (status == Status::kOk) return Status::kInProgress;
    pins_.release(pin);
    return status;
}

}  // namespace tern
