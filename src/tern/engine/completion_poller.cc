// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/completion_poller.h"

#include <string>

#include "tern/base/tunables.h"
#include "tern/connection/little_endian.h"
#include "tern/engine/batches.h"
#include "tern/engine/device_health.h"
#include "tern/engine/poller.h"
#include "tern/engine/resources.h"

namespace tern {

CompletionPoller::CompletionPoller(const EngineParts& parts)
    : cq_(parts.resources.cq.get()),
      receives_(*parts.resources.receives),
      pool_(parts.resources.pool),
      blocks_(parts.blocks),
      offered_(parts.offered),
      control_(parts.control),
      requests_(parts.requests),
      connector_(parts.connector),
      health_(parts.health),
      repeated_(parts.poller.budget()) {}

bool CompletionPoller::still_waits(const Channel& channel, bool& of_others) {
    if (!late_.has_room(kBurst)) {
        of_others = true;
        return false;
    }
    ibv_wc found[kBurst];
    const int count = ibv_poll_cq(cq_, kBurst, found);
    for (int i = 0; i < count; ++i) {
        late_.set_aside(found[i]);
        if (work_request_id::is_receive(found[i].wr_id)) continue;
        auto* const of = static_cast<Channel*>(connector_.table().find_send(found[i].wr_id));
        if (of == nullptr) continue;
        of_others = of_others || of != &channel;
        const uint32_t seen = work_request_id::number(found[i].wr_id) + 1;
        of->sends.change_marks([=](BatchMarks& marks) { marks.see(seen); });
        WorkRequests::post_held(*of);
    }
    return count >= 0 && count < int{kBurst} && Batches::is_due(channel);
}

// A work request of a channel that ends has completed. A control frame may have been posted after
// the last signaled one.
void CompletionPoller::sent_last(Channel& channel) {
    if (!channel.sends.idle()) requests_.report_all(channel);
    connector_.finish_if_idle(channel);
}

// The peer gives a message a number. False: the frame is malformed.
bool CompletionPoller::define_repeat(Channel& channel, const std::byte* payload, uint32_t length) {
    RepeatFrame frame;
    if (!unpack(frame, payload, length)) return false;
    if (channel.receiving.repeats == nullptr)
        channel.receiving.repeats = std::make_unique<ReceivedRepeats>();
    repeated_.expect();
    return channel.receiving.repeats->define(frame);
}

// So many completions have come one behind the other that the receive queue may run out. Senders
// that find no receive have to wait for their device's timer.
void CompletionPoller::lengthen() {
    waiting_ = 0;
    if (receives_.size() >= kReceivesOfSender * offered_.cold_senders() + 2 * expected_) return;
    (void)receives_.grow();
    TERN_TRACE("the receive queue has %u buffers for %u senders", receives_.size(),
               offered_.cold_senders());
}

// Half of the receives are for cold messages.
void CompletionPoller::expect_notifications(int32_t writes) {
    expected_ += static_cast<uint32_t>(writes);
    while (receives_.size() < 2 * expected_ && receives_.grow()) continue;
}

void CompletionPoller::fail(Channel& channel, const ibv_wc& completion) {
    if (channel.failed) return;
    Status status = Status::kDevice;
    switch (completion.status) {
        case IBV_WC_RETRY_EXC_ERR:
        case IBV_WC_RNR_RETRY_EXC_ERR:
            status = Status::kTimedOut;
            break;
        case IBV_WC_WR_FLUSH_ERR:
        case IBV_WC_REM_ABORT_ERR:
            status = Status::kConnectionReset;
            break;
        case IBV_WC_REM_ACCESS_ERR:
            status = Status::kRemoteAccess;
            break;
        case IBV_WC_REM_INV_REQ_ERR:
        case IBV_WC_REM_OP_ERR:
            status = Status::kProtocol;
            break;
        default:
            break;
    }
    connector_.fail(channel, status,
                    std::string("a work request failed: ") + ibv_wc_status_str(completion.status));
}

void CompletionPoller::on_failed_receive(const ibv_wc& completion) {
    // The failure of the queue pair has been reported already.
    if (completion.status == IBV_WC_WR_FLUSH_ERR) return;
    Channel* channel = receiver(completion.qp_num);
    if (channel != nullptr)
        connector_.fail(*channel, Status::kProtocol,
                        std::string("a receive failed: ") + ibv_wc_status_str(completion.status));
}

// `frame`: what has come, with its word.
void CompletionPoller::on_malformed(Channel& channel, const char* what, Word word,
                                    const std::byte* frame, uint32_t length) {
    channel.receiving.deaf = true;
    const uint32_t payload = length - std::min(length, uint32_t{sizeof(Word)});
    connector_.fail(channel, Status::kProtocol,
                    std::string(what) + ": " +
                        ControlFrames::describe(channel, word, frame + sizeof(Word), payload));
}

void CompletionPoller::on_failed_queue() {
    health_.break_down("its completion queue cannot be polled");
}

}  // namespace tern
