// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>

#include <cstdint>
#include <span>

#include "engine/fast_path.h"
#include "engine/send_pool.h"
#include "engine/work_requests.h"
#include "veloblock/repeats.h"

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
        uint32_t immediate = 0;
    };
    // Decides how a put and its message go. May send the frame that gives the message its number.
    Plan plan(Channel& channel, uint32_t id, const repeat::Words& words);
    // Posts the put as planned.
    Status post(Channel& channel, const FastPath::Put& put, const Plan& plan, uint64_t value);

    // The usual case: of few bytes, which are copied at once, in a stream. Null: call plan().
    [[gnu::always_inline]] static SentRepeats::Place* usual(Channel& channel, uint32_t id,
                                                            const repeat::Words& words,
                                                            uint64_t& higher) {
        SentRepeats* const sent = channel.sending.repeats.get();
        if (sent == nullptr || !channel.sends.takes_unsignaled() || channel.sends.idle() ||
            !channel.sending.allowance.several()) [[unlikely]]
            return nullptr;
        SentRepeats::Place& place = sent->place_of(words);
        higher = place.higher(id, words);
        return higher <= repeat::kMostHigher ? &place : nullptr;
    }
    [[gnu::always_inline]] Status post_usual(Channel& channel, std::span<const std::byte> data,
                                             uint64_t to, uint32_t rkey, SentRepeats::Place& place,
                                             uint64_t higher);

    uint64_t sent() const { return sent_; }

  private:
    // The work request, prepared but for what differs between puts.
    struct Write {
        Write() {
            request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            request.sg_list = &piece;
            make_usual();
        }
        Write(const Write&) = delete;
        Write& operator=(const Write&) = delete;
        // What post_usual() relies on.
        void make_usual() {
            request.num_sge = 1;
            request.send_flags = IBV_SEND_INLINE;
            piece.lkey = 0;
        }

        alignas(64) ibv_send_wr request{};
        ibv_sge piece{};
    };

    static uint32_t immediate_of(const Channel& channel, uint32_t number, uint64_t higher) {
        return repeat::immediate(number, static_cast<uint32_t>(higher),
                                 channel.sending.path.sequence());
    }
    static void sent_repeat(Channel& channel) {
        channel.sending.path.sent_cold();
        channel.sending.allowance.sent();
    }
    Plan without_room(Channel& channel);

    Write write_;
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
    write_.piece.addr = address_of(data.data());
    write_.piece.length = static_cast<uint32_t>(data.size());
    ibv_send_wr& request = write_.request;
    request.wr_id = channel.tag | channel.sends.next();
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = rkey;
    request.imm_data =
        htonl(immediate_of(channel, channel.sending.repeats->number_of(place), higher));
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(channel.qp.get(), &request, &bad) != 0) [[unlikely]]
        return requests_.on_refused(channel);
    channel.sends.posted_unsignaled(1);
    SentRepeats::sent(place, place.words[4] + higher);
    sent_repeat(channel);
    ++puts_;
    ++sent_;
    return Status::kOk;
}

}  // namespace tern
