// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of the tag interface.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "tern/matching/messages.h"
#include "tern/matching/slab.h"
#include "tern/uct/iface.h"
#include "tern/uct/matching.h"

namespace tern {

// The part of a receive that TagBuffers uses. A receive without memory is not added.
struct TagBuffer {
    const std::byte* at = nullptr;
    uint64_t wanted = 0;  // tag
    TagBuffer* next_of_bucket = nullptr;
};

// Finds receives whose completion has not been called, by address and tag: at most one of each
// exists. No allocation after construction.
class TagBuffers {
  public:
    // `most`: receives at a time.
    explicit TagBuffers(uint32_t most)
        : shift_(64 - std::countr_zero(size_for(most))),
          buckets_(std::make_unique<TagBuffer*[]>(size_for(most))) {}

    // False: a receive with the same address and tag exists.
    bool add(TagBuffer& buffer) {
        if (buffer.at == nullptr) return true;
        TagBuffer*& bucket = bucket_of(buffer);
        for (const TagBuffer* other = bucket; other != nullptr; other = other->next_of_bucket)
            if (other->at == buffer.at && other->wanted == buffer.wanted) return false;
        buffer.next_of_bucket = bucket;
        bucket = &buffer;
        return true;
    }
    // `buffer` must have been added.
    void remove(TagBuffer& buffer) {
        if (buffer.at == nullptr) return;
        TagBuffer** link = &bucket_of(buffer);
        while (*link != &buffer) link = &(*link)->next_of_bucket;
        *link = buffer.next_of_bucket;
    }

  private:
    static constexpr uint64_t size_for(uint32_t most) {
        return std::bit_ceil(uint64_t{2} * most + 2);
    }
    TagBuffer*& bucket_of(const TagBuffer& buffer) const {
        constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
        const uint64_t tag = buffer.wanted ^ buffer.wanted >> 32;
        return buckets_[((reinterpret_cast<uintptr_t>(buffer.at) ^ tag) * kGolden) >> shift_];
    }

    int shift_;
    std::unique_ptr<TagBuffer*[]> buckets_;
};

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

template <class Header>
Header header_of(const std::byte* data) {
    Header header;
    memcpy(&header, data, sizeof(header));
    return header;
}

// Posted receives and the messages for them. Unexpected messages are passed to the user at once,
// and not kept.
class TagReceives {
  public:
    // `most`: receives at a time, posted or being filled.
    TagReceives(Engine& engine, Rendezvous& rendezvous, uint32_t most,
                const TagCallbacks& callbacks, TagCounters& counters);

    // All receives in it are TagReceives.
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
    bool arrived(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
        if (!is_frame(id, data, length)) return false;
        const uint64_t tag = header_of<EagerHeader>(data).tag;
        handle(&channel, id, data, length, static_cast<TagReceive*>(posted_.match(tag)));
        return true;
    }
    // Completes canceled receives; retries transfers and answers that had no room. Returns how many
    // entries it has handled.
    unsigned progress();
    // Whether progress() has anything to do.
    bool has_work() const { return work_ != 0; }
    // Whether the next progress() will call a completion, with or without room.
    bool any_canceled() const { return !canceled_.empty(); }

    // For DirectTags: what post(), cancel() and arrived() consist of. enter(): posts the receive.
    // end_canceled(): a receive that is no longer posted, or that is canceled already. is_frame():
    // the frame is well-formed. handle(): a message and its receive; this and the channel may be
    // null.
    ucs_status_t enter(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                       uct_tag_context_t* context, TagReceive*& receive);
    TagReceive& to_cancel(uct_tag_context_t* context, bool force);
    void end_canceled(TagReceive& receive, bool force);
    static bool is_frame(uint32_t id, const std::byte* data, uint32_t length);
    void handle(Channel* channel, uint32_t id, const std::byte* data, uint32_t length,
                TagReceive* receive);
    // taken(): a receive has its message, or will have it. received(): the message is in memory, or
    // lost. canceled(): the receive is canceled.
    static void taken(TupleReceive& receive);
    void received(TupleReceive& receive, uint64_t tag, uint32_t length, Status status);
    void canceled(TupleReceive& receive);
    // The channel is over. Returns whether any receive ended early.
    bool ended(Channel& channel, Status status);

  private:
    // What became of a message; to be sent to its sender.
    struct Outcome {
        Channel* channel;
        TagFinish frame;
    };

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
