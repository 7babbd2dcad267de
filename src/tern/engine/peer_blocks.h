// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/make_room.h"
#include "tern/engine/channel.h"
#include "tern/engine/work_requests.h"
#include "tern/engine/writer_words.h"

namespace tern {

class Connector;
class ControlFrames;

// The blocks of the peers, into which this side writes: the credit of each, the words that its
// reader writes, and stalls. Owns Channel::sending. take_credit() and choose() are on the data
// path.
//
// States of a peer's block, as this side sees it:
//
//   none         sends go cold
//   in use       sends go into the block as long as the peer's credit permits
//   release due  still in use; a release frame is sent as soon as there is room
//
//   none         an offer                                     in use
//   in use       a revocation                                 release due
//                too many stalls, or payloads too long        release due, asking for a larger
//                block
//   release due  the release frame is posted                  none
class PeerBlocks {
  public:
    PeerBlocks(ibv_pd* pd, Connector& connector, WorkRequests& requests, ControlFrames& control)
        : connector_(connector), requests_(requests), control_(control), words_(pd) {}

    // Takes what the peer has written to the credit word. False: nothing new.
    bool take_credit(Channel& channel) {
        const WriterWords::Pair* words = channel.sending.words.at;
        if (words == nullptr) return false;
        const uint32_t freed = __atomic_load_n(&words->credit, __ATOMIC_ACQUIRE);
        if (freed == channel.sending.credit_taken) return false;
        const BlockWriter::Taken taken = channel.sending.path.credit_word(freed);
        if (taken == BlockWriter::Taken::kMalformed) [[unlikely]]
            on_malformed_credit(channel);
        if (taken != BlockWriter::Taken::kYes) return false;
        channel.sending.credit_taken = freed;
        return true;
    }
    // Before a path is chosen: posts what is held back, whose frame has more of the block until
    // then than it will take, and takes all credit. False: the connection has failed.
    bool prepare(Channel& channel) {
        WorkRequests::post_held(channel);
        (void)take_credit(channel);
        return !channel.failed;
    }
    // The path of a payload of `length` bytes, with all credit. A frame that goes straight needs no
    // more than there is.
    SendPath::Choice choose(Channel& channel, uint32_t length) {
        if (!prepare(channel)) [[unlikely]]
            return {.route = SendPath::Route::kStall, .plan = {}};
        if (channel.sending.path.fenced() && !channel.sends.under_way(channel.sending.fenced_for))
            [[unlikely]]
            let_go(channel);
        return with_allowance(channel, channel.sending.path.choose(length));
    }
    // Chooses the path of a payload whose length is not known: it may turn out to go cold.
    SendPath::Choice choose_unknown(Channel& channel) {
        const SendPath::Choice choice = choose(channel, channel.sending.last_bcopy);
        if (!channel.sending.allowance.overdrawn()) [[likely]]
            return choice;
        return {.route = SendPath::Route::kWait, .plan = {}};
    }
    // Whether nothing may be sent now, by a choice.
    static bool refuses(const SendPath::Choice& choice) {
        return choice.route >= SendPath::Route::kStall;
    }
    // Returns kNoResource.
    Status on_refused(Channel& channel, const SendPath::Choice& choice) {
        return choice.route == SendPath::Route::kStall ? on_stall(channel) : on_wait(channel);
    }
    // Sends the reader to the block's high end, since the next frame does not fit below.
    bool post_wrap(Channel& channel, uint32_t at);
    // There may be this many channels: on_stall() and on_offer() do not allocate.
    void make_room(size_t channels) {
        base::make_room(stalled_, channels);
        base::make_room(hot_, channels);
    }
    // A send has found the block full. Returns kNoResource.
    Status on_stall(Channel& channel);
    // A send has found that the peer allows no more cold messages. Returns kNoResource.
    Status on_wait(Channel& channel);
    // A payload went cold although there is a block, because it is full or too small.
    void on_detour(Channel& channel, uint32_t length);

    // Later messages must not overtake earlier puts. A receive completes behind the writes posted
    // before it, but a frame in a block may be seen before them: while the last put is under way,
    // frames go cold.
    static void fence(Channel& channel) {
        if (channel.sending.path.hot() && channel.sends.under_way(channel.sending.last_put))
            hold(channel);
    }
    // Fences all channels that have a block.
    void fence_all() {
        for (Channel* channel : hot_) fence(*channel);
    }
    // A later put may be seen before earlier ones that are under way: the device does not even
    // promise the order of the bytes of one, as far as this side's own can tell.
    static bool puts_overtake(const Channel& channel) {
        return !channel.receiving.polls_memory && channel.sends.under_way(channel.sending.last_put);
    }
    // Whether all connections have devices that keep the order of puts.
    bool orders_puts() const { return orders_puts_; }
    // The connection has come up.
    void begin(const Channel& channel) {
        orders_puts_ = orders_puts_ && channel.receiving.polls_memory;
    }

    // Received control frames. False: the frame is malformed.
    bool on_offer(Channel& channel, const std::byte* payload, uint32_t length);
    bool on_revoke(Channel& channel);
    bool on_allowance(Channel& channel, const std::byte* payload, uint32_t length);

    // Control frames that are due. False: there is no room now.
    bool send_words(Channel& channel);
    bool send_release(Channel& channel);
    bool send_credit_request(Channel& channel);

    // Before a sleep: asks the readers of full blocks for frames, because a write to a credit word
    // wakes no sleeper. True: what has found no room may find it now.
    bool request_credit_frames();
    // The channel is over.
    void forget(Channel& channel);

    uint64_t stalls() const { return stalls_; }
    uint64_t waits() const { return waits_; }
    size_t registered_bytes() const { return words_.registered_bytes(); }

  private:
    static SendPath::Choice with_allowance(const Channel& channel, SendPath::Choice choice) {
        if (choice.route == SendPath::Route::kCold && !channel.sending.allowance.open())
            [[unlikely]]
            choice.route = SendPath::Route::kWait;
        return choice;
    }
    bool is_first(Channel& channel, bool& refuses);
    void choose_notification(Channel& channel, const BlockOffer& offer);
    static void hold(Channel& channel);
    static void let_go(Channel& channel);
    [[gnu::cold]] void on_malformed_credit(Channel& channel);

    Connector& connector_;
    WorkRequests& requests_;
    ControlFrames& control_;
    WriterWords words_;
    std::vector<Channel*> stalled_;  // those that have stalled, and perhaps do still
    std::vector<Channel*> hot_;      // those with a block
    bool orders_puts_ = true;
    uint64_t stalls_ = 0;  // of a series only the first
    uint64_t waits_ = 0;   // the same, for an allowance
};

}  // namespace tern
