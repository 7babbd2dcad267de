// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/work_requests.h"

#include <new>

#include "tern/connection/connector.h"
#include "tern/engine/batches.h"

namespace tern {

bool WorkRequests::write_word(Channel& channel, uint32_t value, uint64_t to, uint32_t rkey,
                              uint32_t& last, unsigned signal) {
    if (channel.sends.under_way(last)) {
        report_all(channel);
        return false;
    }
    last = channel.sends.next();
    return write_inline(channel, &value, sizeof value, to, rkey, false, signal);
}

bool WorkRequests::post_empty(Channel& channel, bool users) {
    if (channel.failed || channel.sends.room() == 0) return false;
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    return post(channel, request, users);
}

void WorkRequests::check_silent(Channel& channel, uint64_t& since) {
    const uint64_t now = connector_.now();
    if (since == 0) since = now;
    if (now - since < static_cast<uint64_t>(kSilence.count())) return;
    since = now;
    if (!channel.sends.reports()) (void)post_empty(channel, true);
}

void WorkRequests::post_batch(Channel& channel) {
    channel.batch.owner->push(channel);
}

void WorkRequests::post_marker(Channel& channel, bool users) {
    post_held(channel);
    // The device's queue may be longer than what is accounted for.
    if (channel.sends.room() == 0) return;
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr_id = channel.tag | channel.sends.next();
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(channel.qp.get(), &request, &bad) == 0) channel.sends.posted(true, users);
}

bool WorkRequests::post_fence(Channel& channel) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_FENCE;
    return post(channel, request, false);
}

Status WorkRequests::on_refused(Channel& channel) noexcept {
    try {
        connector_.fail(channel, Status::kDevice, "the device refuses a work request");
    } catch (const std::bad_alloc&) {
        // A failed completion then ends the connection, in a poll, as if the user had lost it.
        (void)verbs::to_error(channel.qp.get());
        if (!channel.failed) post_marker(channel, true);
    }
    return Status::kDevice;
}

}  // namespace tern
