// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/drains.h"

#include <arpa/inet.h>

#include "tern/tupleq/xrc/messages.h"

namespace tern {

namespace {

// The other end has answered that the send was not executed; then no later send was.
bool is_refused(ibv_wc_status status) {
    return status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_ACCESS_ERR ||
           status == IBV_WC_REM_OP_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR;
}

}  // namespace

Drains::Result Drains::send(TupleAction& action) {
    for (; action.count != 0; --action.count) {
        if (!links_.open_loopback()) return Result::kFailed;
        XrcLink& link = *links_.loopback();
        if (link.room() == 0) return Result::kNoRoom;
        ibv_send_wr request{};
        request.imm_data = htonl(to_immediate(queues_.nonce(action.tuple), kDrainName));
        if (link.post(request, queues_.number(action.tuple), {.cookie = cookie_of(action.tuple)}) !=
            0)
            return Result::kFailed;
    }
    return Result::kDone;
}

// A drain whose queue is gone breaks the loop-back link, which is no error. Drains of other queues
// behind it are sent again over a new link.
Drains::Outcome Drains::on_sent(XrcLink& link, const void* cookie, ibv_wc_status status) {
    if (status == IBV_WC_SUCCESS) return {};
    const bool first = link.state != XrcLink::State::kOver;
    if (first) link.in_doubt = !is_refused(status);
    const bool again = !first && !link.in_doubt;
    links_.end(link);
    if (is_astray(cookie)) return {};
    if (again) return {Fate::kAgain, queue_of(cookie)};
    links_.count_failure(first, status);
    return {Fate::kLost, queue_of(cookie)};
}

bool Drains::is_astray(const void* cookie) const {
    const uint16_t queue = queue_of(cookie);
    return cookie != cookie_of(queue) || queues_.stopped(queue);
}

bool Drains::any_astray() const {
    const XrcLink* const link = links_.loopback();
    return link != nullptr &&
           link->any_under_way([this](const TupleSend& send) { return is_astray(send.cookie); });
}

}  // namespace tern
