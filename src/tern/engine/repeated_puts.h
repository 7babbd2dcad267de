// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>

#include <cstdint>
#include <span>

#include "tern/engine/put_request.h"
#include "tern/engine/send_pool.h"
#include "tern/engine/work_requests.h"
#include "tern/veloblock/repeats.h"

namespace tern {

class ControlFrames;

// Puts whose messages repeat earlier ones (veloblock/repeats.h): each is one write with immediate
// data instead of a write and a frame. Owns Channel::Sending::repeats. Data path.
class RepeatedPuts {
  public:
    // `puts`: is incremented for each.
    RepeatedPuts(bool enabled, SendPool& pool, WorkRequests& requests, ControlFrames& control,
                 uint64_t& puts)
        : enabled_(enabled), pool_(pool), requests_(requests), control_(control), puts_(puts) {}

    struct Plan {
        enum class How : uint8_t {
            kMessage,  // the message has to be sent itself
            kRepeat,   // post()
            kWait,     // for room, which is about to come
        } how = How::kMessage;
        SentRepeats::Place* place = nullptr;  // kRepeat
        uint32_t higher = 0;                  // the value, than the last one
    };
    // Decides how a put and its message go. May send the frame that gives the message its number.
    Plan plan(Channel& channel, uint32_t id, const repeat::Words& words);
    // Posts the put as planned: kRepeat.
    Status post(Channel& channel, const PutRequest::Put& put, const Plan& plan);

    // The usual case: of few bytes, which are copied at once, in a stream. Null: call plan().
    [[gnu::always_inline]] static SentRepeats::Place* usual(Channel& channel, uint32_t id,
                                                            const repeat::Words& words,
                                                            uint64_t& higher) {
        SentRepeats* const sent = channel.sending.repeats.get();
        if (sent == nullptr || !channel.sends.takes_unsignaled() || channel.sends.idle() ||
            !channel.sending.allowance.several()) [[unlikely]]
            return nullptr;
        SentRepeats::Place& place = sent->likely_place_of(id, words);
        higher = place.higher(id, words);
        return higher <= repeat::kMostHigher ? &place : nullptr;
    }
    [[gnu::always_inline]] Status post_usual(Channel& channel, std::span<const std::byte> data,
                                             uint64_t to, uint32_t rkey, SentRepeats::Place& place,
                                             uint64_t higher);

    uint64_t sent() const { return sent_; }

  private:
    static void complete(ibv_send_wr& request, Channel& channel, const SentRepeats::Place& place,
                         uint64_t higher) {
        channel.sending.last_put = channel.sends.next();
        request.wr_id = channel.tag | channel.sends.next();
        request.imm_data = htonl(repeat::immediate(channel.sending.repeats->number_of(place),
                                                   static_cast<uint32_t>(higher),
                                                   channel.sending.path.sequence()));
    }
    void sent_repeat(Channel& channel, SentRepeats::Place& place, uint64_t higher) {
        SentRepeats::sent(place, higher);
        channel.sending.path.sent_cold();
        channel.sending.allowance.sent();
        ++puts_;
        ++sent_;
    }
    Plan without_room(Channel& channel);

    PutRequest write_{IBV_WR_RDMA_WRITE_WITH_IMM};
    uint64_t sent_ = 0;
    bool enabled_;
    SendPool& pool_;
    WorkRequests& requests_;
    ControlFrames& control_;
    uint64_t& puts_;
};

[[gnu::always_inline]] inline Status RepeatedPuts::post_usual(Channel& channel,
                                                              std::span<const std::byte> data,
                                                              uint64_t to, uint32_t rkey,
                                                              SentRepeats::Place& place,
                                                              uint64_t higher) {
    ibv_send_wr& request = write_.set_usual(data, to, rkey);
    complete(request, channel, place, higher);
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(channel.qp.get(), &request, &bad) != 0) [[unlikely]]
        return requests_.on_refused(channel);
    channel.sends.posted_unsignaled(1);
    sent_repeat(channel, place, higher);
    return Status::kOk;
}

}  // namespace tern
