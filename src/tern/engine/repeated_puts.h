// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "tern/engine/send_pool.h"
#include "tern/engine/work_requests.h"
#include "tern/veloblock/repeats.h"

namespace tern {

class ControlFrames;

// The work request of puts, prepared but for what differs between them. Of few bytes, unless
// set() has made it another; make_usual() comes after that.
class PutRequest {
  public:
    // A put that is posted together with its message, or stands for it.
    struct Put {
        ibv_sge from;
        unsigned flags;  // IBV_SEND_INLINE, or 0
        uint64_t to;
        uint32_t rkey;
        SendPool::Buffer* buffer = nullptr;  // given back, or ...
        void* cookie = nullptr;              // ... reported, when `from` may be used again
    };

    explicit PutRequest(ibv_wr_opcode opcode, ibv_send_wr* then = nullptr) {
        request_.next = then;
        request_.sg_list = &piece_;
        request_.opcode = opcode;
        make_usual();
    }
    PutRequest(const PutRequest&) = delete;
    PutRequest& operator=(const PutRequest&) = delete;

    // The caller completes it by `wr_id`, and immediate data.
    [[gnu::always_inline]] ibv_send_wr& set_usual(std::span<const std::byte> data, uint64_t to,
                                                  uint32_t rkey) {
        piece_.addr = address_of(data.data());
        piece_.length = static_cast<uint32_t>(data.size());
        request_.wr.rdma.remote_addr = to;
        request_.wr.rdma.rkey = rkey;
        return request_;
    }
    ibv_send_wr& set(const Put& put, bool signaled) {
        piece_ = put.from;
        request_.num_sge = put.from.length != 0 ? 1 : 0;
        request_.send_flags = put.flags | (signaled ? unsigned{IBV_SEND_SIGNALED} : 0);
        request_.wr.rdma.remote_addr = put.to;
        request_.wr.rdma.rkey = put.rkey;
        return request_;
    }
    // What set_usual() relies on.
    void make_usual() {
        request_.num_sge = 1;
        request_.send_flags = IBV_SEND_INLINE;
        piece_.lkey = 0;
    }

  private:
    alignas(64) ibv_send_wr request_{};
    ibv_sge piece_{};
};

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
