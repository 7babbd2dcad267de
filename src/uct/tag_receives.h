// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of the tag interface.
#pragma once

#include <deque>

#include "matching/messages.h"
#include "matching/slab.h"
#include "tupleq/xrc/tupleq.h"
#include "uct/iface.h"
#include "uct/tag_buffers.h"
#include "uct/tag_counters.h"

namespace tern {

class TagReceives;

/// A receive from its posting to the last that the user hears of it.
struct TagReceive : TupleReceive, TagBuffer {
    TagReceive* next_free = nullptr;
    TagReceives* owner = nullptr;
    uct_tag_context_t* context = nullptr;
    const Region* declared = nullptr;  // that the memory is in; null: none
    bool canceled = false;             // and the user is to hear of it
    bool leaving = false;              // the user wants it canceled
    // Matched by a request to send:
    Channel* channel = nullptr;
    RequestHeader request;
    uct_completion_t completion{};
};

/// Whom messages without a receive go to.
struct TagCallbacks {
    uct_tag_unexp_eager_cb_t eager;
    void* eager_argument;
    uct_tag_unexp_rndv_cb_t rndv;
    void* rndv_argument;
    size_t headroom;  // bytes that they want in front of a message that they may keep
};

/// Receives that are posted, and what comes for them. What finds no receive is the user's at once:
/// nothing unexpected is kept.
class TagReceives {
  public:
    /// `most`: receives that are posted, or being filled, at a time.
    TagReceives(Engine& engine, Mover& mover, uint32_t most, const TagCallbacks& callbacks,
                TagCounters& counters);

    /// From now on the device may place messages; what is posted are TagReceive.
    void use(TupleQ* tupleq) { tupleq_ = tupleq; }
    PostedReceives& table() { return posted_; }

    /// UCS_ERR_ALREADY_EXISTS: there is one with this tag and this memory whose end the user has
    /// not heard of. UCS_ERR_EXCEEDS_LIMIT: there are `most`.
    ucs_status_t post(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                      uct_tag_context_t* context);
    /// Not by force: the user hears of it from progress(). UCS_ERR_BUSY: by force, but its message
    /// is being written.
    ucs_status_t cancel(uct_tag_context_t* context, bool force);
    uint32_t most() const { return receives_.count(); }

    /// A frame of kind kTag. False: it is malformed.
    bool arrived(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    /// Tells of what was canceled, begins and ends transfers for which there was no room.
    unsigned progress();
    /// progress() has something to do.
    bool has_work() const { return work_ != 0; }
    /// The next progress() has something to tell, whatever else happens.
    bool any_canceled() const { return !canceled_.empty(); }

    /// From the direct path: a receive has its message, or will have; a message is in the receive's
    /// memory, or lost; a receive is canceled; messages that are held can be offered again.
    static void taken(TupleReceive& receive);
    void received(TupleReceive& receive, uint64_t tag, uint32_t length, Status status);
    void canceled(TupleReceive& receive);
    void retry(uint32_t peer);
    /// The channel is over. Returns whether that has ended anything early.
    bool ended(Channel& channel, Status status);

  private:
    /// What became of a message, for its sender.
    struct Outcome {
        Channel* channel;
        TagFinish frame;
    };

    /// A message of a peer whose earlier ones have to be matched first.
    struct Held {
        uint32_t peer;
        Channel* channel;  // null: it is over
        uint32_t id;
        std::vector<std::byte> frame;
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
    static void moved(uct_completion_t* completion);
    void over(TagReceive& receive, ucs_status_t status);
    void finish(Channel& channel, uint64_t operation, bool taken);
    bool send(const Outcome& outcome);
    void count_work() {
        work_ = static_cast<unsigned>(canceled_.size() + waiting_.size() + unsent_.size());
    }

    Engine& engine_;
    Mover& mover_;
    TupleQ* tupleq_ = nullptr;  // null: no message is direct
    TagCallbacks callbacks_;
    TagCounters& counters_;
    PostedReceives posted_;
    Slab<TagReceive> receives_;
    TagBuffers buffers_;
    std::deque<TagReceive*> canceled_;
    std::deque<TagReceive*> waiting_;  // for their transfer to begin
    std::deque<Outcome> unsent_;       // that senders are to be told of
    unsigned work_ = 0;                // what is in these three lists
    std::deque<Held> held_;
};

}  // namespace tern
