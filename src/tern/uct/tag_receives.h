// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of the tag interface.
#pragma once

#include <deque>

#include "tern/matching/messages.h"
#include "tern/matching/slab.h"
#include "tern/tupleq/xrc/tupleq.h"
#include "tern/uct/iface.h"
#include "tern/uct/tag_buffers.h"
#include "tern/uct/tag_counters.h"

namespace tern {

class TagReceives;

// A receive, from post() until its completion is called.
struct TagReceive : TupleReceive, TagBuffer {
    TagReceive* next_free = nullptr;
    TagReceives* owner = nullptr;
    uct_tag_context_t* context = nullptr;
    const Region* declared = nullptr;  // region of the memory; null: none
    bool canceled = false;             // in TagReceives::canceled_
    bool leaving = false;              // the user has asked to cancel it
    // Set when a request to send has matched the receive:
    Channel* channel = nullptr;
    RequestHeader request;
    uct_completion_t completion{};
};

// The user's callbacks for messages that find no receive.
struct TagCallbacks {
    uct_tag_unexp_eager_cb_t eager;
    void* eager_argument;
    uct_tag_unexp_rndv_cb_t rndv;
    void* rndv_argument;
    size_t headroom;  // bytes in front of a message that the user may keep
};

// Posted receives and the messages for them. Unexpected messages are passed to the user at once,
// and not kept.
class TagReceives {
  public:
    // `most`: receives at a time, posted or being filled.
    TagReceives(Engine& engine, Rendezvous& rendezvous, uint32_t most,
                const TagCallbacks& callbacks, TagCounters& counters);

    // From now on the device may place messages. All receives in table() are TagReceives.
    void use(TupleQ* tupleq) { tupleq_ = tupleq; }
    PostedReceives& table() { return posted_; }

    // UCS_ERR_ALREADY_EXISTS: a receive with this tag and this memory exists, whose completion has
    // not been called. UCS_ERR_EXCEEDS_LIMIT: there are `most` receives.
    ucs_status_t post(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                      uct_tag_context_t* context);
    // Without `force`, progress() completes the receive as canceled, unless its message arrives
    // first. With `force`, the receive is over on return; UCS_ERR_BUSY: its message is on the way.
    ucs_status_t cancel(uct_tag_context_t* context, bool force);
    uint32_t most() const { return receives_.count(); }

    // Handles a frame of kind kTag. False: the frame is malformed.
    bool arrived(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    // Completes canceled receives; retries transfers and answers that had no room. Returns how many
    // entries it has handled.
    unsigned progress();
    // Whether progress() has anything to do.
    bool has_work() const { return work_ != 0; }
    // Whether the next progress() will call a completion, with or without room.
    bool any_canceled() const { return !canceled_.empty(); }

    // From the direct path. taken(): a receive has its message, or will have it. received(): the
    // message is in memory, or lost. canceled(): the receive is canceled. retry(): messages held
    // from this peer can be matched again.
    static void taken(TupleReceive& receive);
    void received(TupleReceive& receive, uint64_t tag, uint32_t length, Status status);
    void canceled(TupleReceive& receive);
    void retry(uint32_t peer);
    // The channel is over. Returns whether any receive ended early.
    bool ended(Channel& channel, Status status);

  private:
    // What became of a message; to be sent to its sender.
    struct Outcome {
        Channel* channel;
        TagFinish frame;
    };

    bool arrived_with_direct(Channel& channel, uint32_t id, const std::byte* data, uint32_t length,
                             const WireMark* mark);
    void handle(Channel* channel, uint32_t id, const std::byte* data, uint32_t length,
                TagReceive* receive);
    void eager(TagReceive* receive, uint64_t tag, uint64_t immediate, const std::byte* data,
               uint32_t length);
    void unexpected(uint64_t tag, uint64_t immediate, const std::byte* data, uint32_t length);
    void request(TagReceive* receive, Channel* channel, const RequestHeader& header,
                 const std::byte* users, uint32_t length);
    void software_request(TagReceive* receive, uint64_t tag, const std::byte* users,
                          uint32_t length);
    bool begin(TagReceive& receive);
    void give(TagReceive* receive) {
        buffers_.remove(*receive);
        receives_.give(receive);
    }
    static void on_fetched(uct_completion_t* completion);
    void over(TagReceive& receive, ucs_status_t status);
    void finish(Channel& channel, uint64_t operation, bool taken);
    bool send(const Outcome& outcome);
    void count_work() {
        work_ = static_cast<unsigned>(canceled_.size() + waiting_.size() + unsent_.size());
    }

    Engine& engine_;
    Rendezvous& rendezvous_;
    TupleQ* tupleq_ = nullptr;  // null: no direct messages
    TagCallbacks callbacks_;
    TagCounters& counters_;
    PostedReceives posted_;
    Slab<TagReceive> receives_;
    TagBuffers buffers_;
    std::deque<TagReceive*> canceled_;
    std::deque<TagReceive*> waiting_;  // until their transfers can begin
    std::deque<Outcome> unsent_;       // answers to senders, without room yet
    unsigned work_ = 0;                // length of these three lists
};

}  // namespace tern
