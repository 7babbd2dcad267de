// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/repeated_puts.h"

#include <new>

#include "tern/engine/control_frames.h"

namespace tern {

RepeatedPuts::Plan RepeatedPuts::plan(Channel& channel, uint32_t id, const repeat::Words& words) {
    if (!enabled_) return {};
    if (channel.sending.repeats == nullptr)
        channel.sending.repeats.reset(new (std::nothrow) SentRepeats);
    if (channel.sending.repeats == nullptr) return {};
    SentRepeats& sent = *channel.sending.repeats;
    SentRepeats::Place& place = sent.place_of(words);
    uint64_t higher = place.higher(id, words);
    const bool gets_number = higher > repeat::kMostHigher && SentRepeats::learn(place, id, words);
    if (higher > repeat::kMostHigher && !gets_number) return {};
    if (!channel.sends.takes_data() || !channel.sending.allowance.open())
        return gets_number ? Plan{} : without_room(channel);
    channel.sending.no_repeats = false;
    if (gets_number) {
        // The frame and the write behind it.
        if (!channel.sends.takes_data(2)) return {};
        const RepeatFrame frame{.number = sent.number_of(place), .id = id, .words = words};
        (void)control_.send(channel, ControlId::kRepeat, &frame, sizeof(frame), true);
        if (channel.failed) return {};
        SentRepeats::give_number(place);
        higher = 0;
    }
    return {.how = Plan::How::kRepeat, .place = &place, .higher = static_cast<uint32_t>(higher)};
}

// While writes are outstanding, room is about to come: a message now would be two work requests,
// and a stream would consist of such. But a peer that computes takes nothing; then messages go on
// by its block, behind puts that are complete, until it has allowed more.
RepeatedPuts::Plan RepeatedPuts::without_room(Channel& channel) {
    if (channel.sends.idle() || channel.failed) channel.sending.no_repeats = true;
    if (channel.sending.no_repeats) return {};
    requests_.report_all(channel);
    return {.how = Plan::How::kWait};
}

Status RepeatedPuts::post(Channel& channel, const PutRequest::Put& put, const Plan& plan) {
    WorkRequests::post_held(channel);
    // The last one that is allowed is reported, so that what waits sees its end.
    const bool signaled = put.cookie != nullptr || !channel.sends.takes_unsignaled() ||
                          channel.sends.idle() || !channel.sending.allowance.several();
    ibv_send_wr& request = write_.set(put, signaled);
    complete(request, channel, *plan.place, plan.higher);
    ibv_send_wr* bad = nullptr;
    const bool refused = ibv_post_send(channel.qp.get(), &request, &bad) != 0;
    write_.make_usual();
    if (refused) [[unlikely]] {
        if (put.buffer != nullptr) pool_.give(put.buffer);
        return requests_.on_refused(channel);
    }
    channel.sends.posted(signaled, true);
    if (put.buffer != nullptr) put.buffer->holder = channel.tag;
    if (put.buffer != nullptr || put.cookie != nullptr)
        channel.sends.record(put.buffer, put.cookie);
    sent_repeat(channel, *plan.place, plan.higher);
    return Status::kOk;
}

}  // namespace tern
