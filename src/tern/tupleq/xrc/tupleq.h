// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tern/tupleq/xrc/answers.h"
#include "tern/tupleq/xrc/completions.h"
#include "tern/tupleq/xrc/grant_memory.h"
#include "tern/tupleq/xrc/link_table.h"
#include "tern/tupleq/xrc/owner.h"
#include "tern/tupleq/xrc/receiver.h"
#include "tern/tupleq/xrc/sender.h"

namespace tern {

struct TupleQCounters {
    uint64_t sent = 0;  // messages
    uint64_t sent_copied = 0;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
    uint64_t links = 0;  // XRC links made, without the loop-back link
    uint64_t links_lost = 0;
    uint64_t not_ready = 0;    // messages that found no receive; must remain 0
    uint64_t queues_most = 0;  // in use at a time
    uint64_t unpinned = 0;     // times memory could not be registered
    uint64_t stopped = 0;      // queues destroyed because memory of a receive was deregistered
    uint64_t pauses = 0;       // times a peer was told to pause
};

using TupleCounters = DirectMatcher::Counters;

// Direct messages, which the device places into the receives posted for them: the binding of TupleQ
// to XRC. Each tuple has a shared receive queue at the receiver, and words in the sender's memory
// to which the receiver writes grants. This class joins the parts: one for each direction, the
// links, the answers to peers, and the completion queue, which they share. One thread at a time.
class TupleQ {
  public:
    using Tuple = DirectSender::Tuple;
    using Arrival = DirectReceiver::Arrival;
    using Cancel = Cancellation::Cancel;

    // Null if the device cannot do this; `why` gives the reason.
    static std::unique_ptr<TupleQ> create(const TupleQParts& parts, const TupleQSettings& settings,
                                          std::string& why);
    ~TupleQ();
    TupleQ(const TupleQ&) = delete;
    TupleQ& operator=(const TupleQ&) = delete;

    static uint32_t number_of(const Channel& channel) { return peer_number(channel); }
    // Sending, flushes and fences.
    DirectSender& sender() { return sender_; }
    const DirectSender& sender() const { return sender_; }

    // Receiving. The functions from here to cancel_now() are those of DirectReceiver and
    // Cancellation.
    DirectReceiver& receiver() { return receiver_; }
    bool bind(Channel& channel, uint64_t tag) { return receiver_.bind(channel, tag); }
    void unbind(uint64_t tag) { receiver_.unbind(tag); }
    Cancel cancel(TupleReceive& receive) { return receiver_.cancellation().cancel(receive); }
    bool cancel_now(TupleReceive& receive) { return receiver_.cancellation().cancel_now(receive); }

    bool has_work() const {
        return completions_.in_use() || answers_.any() || receiver_.any_deferred();
    }
    unsigned progress() { return has_work() ? advance() : 0; }
    // Prepares for sleep, like Engine::arm().
    Status arm();

    // The completion of a work request on a channel, if the cookie is TupleQ's.
    static bool is_cookie(const void* cookie) { return Revoker::is_cookie(cookie); }
    void done(void* cookie, Status status) { receiver_.cancellation().on_read(cookie, status); }
    // A control frame has come. False if the peer violates the protocol.
    bool control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    // The channel has ended, with this status; returns the status for its users.
    Status ended(Channel& channel, Status status);
    // The device reports an error of a completion queue or shared receive queue with this
    // verbs::next_identity(). An error of a tuple's queue ends the connection to the tuple's peer;
    // one of the completion queue ends all.
    void queue_failed(const void* identity, const std::string& what);
    // The device has failed, and all channels with it. All sends on links fail, and nothing more is
    // polled.
    void break_down();

    TupleQCounters counters() const;
    const TupleCounters& matching() const { return receiver_.matching(); }
    uint32_t queues_in_use() const { return receiver_.binder().queues_in_use(); }
    // For tests: the identity of a tuple's queue; null if there is none.
    const void* queue_identity(uint16_t number) { return receiver_.queue_identity(number); }
    // Words for grants, and buffers that messages are sent from.
    uint64_t registered_bytes() const { return grants_.size() + sender_.registered_bytes(); }

  private:
    static constexpr int kBurst = 16;  // completions at a time

    TupleQ(const TupleQParts& parts, const TupleQSettings& settings,
           std::unique_ptr<verbs::XrcDomain> domain);
    bool open(uint32_t max_cqe, std::string& why);

    unsigned advance();
    unsigned poll();
    void on_sent(XrcLink& link, ibv_wc_status status);

    verbs::Port port_;
    Engine& engine_;
    const TupleQSettings settings_;
    const std::unique_ptr<verbs::XrcDomain> domain_;
    XrcCompletions completions_;
    GrantMemory grants_;
    LinkTable links_;
    DirectSender sender_;
    TupleAnswers answers_;
    DirectReceiver receiver_;
    bool broken_ = false;  // the device has failed
};

}  // namespace tern
