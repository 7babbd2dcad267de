// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tern/tupleq/core/held_frames.h"
#include "tern/tupleq/xrc/actor.h"
#include "tern/tupleq/xrc/binder.h"
#include "tern/tupleq/xrc/cancellation.h"
#include "tern/tupleq/xrc/entry_memory.h"
#include "tern/tupleq/xrc/messages.h"
#include "tern/tupleq/xrc/owner.h"
#include "tern/tupleq/xrc/queues.h"

namespace tern {

// The receiving side of direct messages: passes receives, messages, frames and completions to the
// core, and has its actions performed. The states of a tuple are the core's: see TupleReceiver.
class DirectReceiver {
  public:
    using Arrival = DirectMatcher::Arrival;

    DirectReceiver(const TupleQParts& parts, const verbs::XrcDomain& domain,
                   XrcCompletions& completions, LinkTable& links, GrantMemory& grants,
                   const TupleQSettings& settings);
    // Destroys the queues before the memory of their entries is released.
    ~DirectReceiver();
    DirectReceiver(const DirectReceiver&) = delete;
    DirectReceiver& operator=(const DirectReceiver&) = delete;

    // A receive has been posted. Data path.
    void posted(const TupleReceive& receive) {
        if (table_.wants_other_key()) [[unlikely]]
            change_key();
        if (!any_queue_ || !table_.is_keyed(receive)) return;
        matcher_.posted(receive.tag);
        actor_.act();
    }
    // An ordinary message has come. It takes the receive, if any, which is then no longer posted;
    // or it is to be held. `mark`: null if the message carries none. `length`: in bytes; 0 if the
    // message could not have been direct. The caller delivers the message and then calls
    // delivered(), because actions may reach the user, who must find the message delivered.
    Arrival ordinary(Channel& channel, uint64_t tag, const TupleMark* mark, uint64_t length);
    void delivered() { actor_.act(); }
    // Matches a held message of the peer with this number, like ordinary().
    Arrival retry(uint32_t peer, uint64_t tag);
    // Keeps the message of an Arrival that is to be held; retry() takes it from held().
    void hold(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    HeldFrames& held() { return held_; }
    // Binds the tuple of this channel and tag, or unbinds it. False if the tuple gets no queue.
    bool bind(Channel& channel, uint64_t tag);
    void unbind(uint64_t tag);

    // A receive of a queue is complete: by a message, or by a drain.
    void on_received(const ibv_wc& completion);
    // A drain is complete, and was taken from its link.
    void on_drain_sent(XrcLink& link, const TupleSend& send, ibv_wc_status status) {
        actor_.on_drain_sent(actor_.drains().on_sent(link, send.cookie, status), status);
    }
    // Frames have come. False if the peer violates the protocol.
    bool on_bound(Channel& channel, const WireBound& frame);
    bool on_closed(Channel& channel, const WireClosed& frame);

    Cancellation& cancellation() { return cancellation_; }
    const Cancellation& cancellation() const { return cancellation_; }
    bool any_deferred() const { return actor_.any_deferred() || held_.any_untold(); }
    // Fails tuples whose queues were stopped, tries waiting actions again, asks senders again for
    // undecided messages, and grants receives that had to wait for their registration. Returns how
    // much there was to do.
    unsigned progress();
    // Whether receives wait for their registration.
    bool any_waits() const { return memory_.any_waits(); }
    // For tests.
    const void* queue_identity(uint16_t number) { return queues_.identity(number); }
    // The device has failed the shared receive queue with this identity. No effect if it is not a
    // tuple's.
    void on_queue_error(const void* identity, const std::string& what);
    // Forgets the last wake-up; true if there was one. `wake_fd`: see XrcQueues.
    bool forget_wake() { return queues_.forget_wake(); }
    bool stops_wait() const { return queues_.stops_wait(); }
    int wake_fd() const { return queues_.wake_fd(); }

    // The channel fails. ended() follows, after all its completions.
    void failing(const Channel& channel) {
        binder_.peer_gone(peer_number(channel));
        held_.gone(peer_number(channel));
    }
    bool has_peer(const Channel& channel) const { return actor_.has_peer(channel); }
    void ended(const Channel& channel);

    const DirectMatcher::Counters& matching() const { return matcher_.counters(); }
    const TupleBinder& binder() const { return binder_; }
    uint64_t received_bytes() const { return received_bytes_; }
    uint64_t stopped() const { return stopped_; }
    uint64_t pauses() const { return pauses_; }
    uint64_t unpinned() const { return memory_.unpinned(); }

  private:
    void change_key();
    void tell_held();
    bool drained(uint16_t number);
    bool placed(uint16_t number, uint32_t name, const ibv_wc& completion);
    void fail_stopped();
    bool spoil(uint16_t number, const std::string& what);

    XrcQueues queues_;
    EntryMemory memory_;
    TupleTable table_;
    DirectMatcher matcher_;
    TupleBinder binder_;
    TupleActor actor_;
    Cancellation cancellation_;
    Engine& engine_;
    HeldFrames held_;         // of messages
    bool any_queue_ = false;  // some tuple has been bound
    uint64_t received_bytes_ = 0;
    uint64_t stopped_ = 0;  // queues destroyed because memory of a receive was deregistered
    uint64_t pauses_ = 0;   // times a peer was told to pause
};

}  // namespace tern
