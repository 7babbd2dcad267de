// SPDX-License-Identifier: BSD-3-Clause
// UCT's tag-matching interface: its two halves, and its functions in UCT's tables.
#pragma once

#include "tern/uct/tag_receives.h"
#include "tern/uct/tag_sends.h"

namespace tern {

// The tag matching of an interface that offers it.
struct TagInterface final : TupleQOwner {
    TagInterface(Engine& engine, Rendezvous& rendezvous, RendezvousOwner& rendezvous_owner,
                 uint32_t most, const TagCallbacks& callbacks)
        : owner(rendezvous_owner),
          sends(rendezvous),
          receives(engine, rendezvous, most, callbacks, counters) {}

    // Handles a control frame. False: the frame is malformed.
    bool control(Engine& engine, Channel& channel, uint32_t id, const std::byte* data,
                 uint32_t length);
    // The channel is over. Returns the status for its endpoints.
    Status ended(Channel& channel, Status status);

    void completed(void* cookie, Status status) override { owner.completed(cookie, status); }
    void taken(TupleReceive& receive) override { TagReceives::taken(receive); }
    void received(TupleReceive& receive, uint64_t tag, uint32_t length, Status status) override {
        receives.received(receive, tag, length, status);
    }
    void canceled(TupleReceive& receive) override { receives.canceled(receive); }
    void retry(uint32_t peer) override { receives.retry(peer); }
    void warn(const std::string& text) override { owner.warn(text); }

    RendezvousOwner& owner;
    TagCounters counters;
    TagSends sends;
    TagReceives receives;
    std::unique_ptr<TupleQ> tupleq;  // null: no direct messages
};

// Whether the user wants tag matching: it asks for that feature, or names no features.
bool wants_tags(const uct_iface_params_t& params);
// The callbacks in `params`, or callbacks that drop messages.
TagCallbacks tag_callbacks(const uct_iface_params_t& params);
// Whether this query shows that the user sends some messages of a tag as active messages. Direct
// messages would not keep their order with those.
bool sends_tags_two_ways(const uct_perf_attr_t& asked);
// Adds the capabilities of tag matching to `attributes`.
void query_tags(const TernIface& iface, uct_iface_attr_t& attributes);

ucs_status_t ep_tag_eager_short(uct_ep_h ep, uct_tag_t tag, const void* data, size_t length);
ssize_t ep_tag_eager_bcopy(uct_ep_h ep, uct_tag_t tag, uint64_t immediate, uct_pack_callback_t pack,
                           void* argument, unsigned flags);
ucs_status_t ep_tag_eager_zcopy(uct_ep_h ep, uct_tag_t tag, uint64_t immediate,
                                const uct_iov_t* iov, size_t count, unsigned flags,
                                uct_completion_t* completion);
ucs_status_ptr_t ep_tag_rndv_zcopy(uct_ep_h ep, uct_tag_t tag, const void* header,
                                   unsigned header_length, const uct_iov_t* iov, size_t count,
                                   unsigned flags, uct_completion_t* completion);
ucs_status_t ep_tag_rndv_cancel(uct_ep_h ep, void* operation);
ucs_status_t ep_tag_rndv_request(uct_ep_h ep, uct_tag_t tag, const void* header,
                                 unsigned header_length, unsigned flags);
ucs_status_t iface_tag_recv_zcopy(uct_iface_h iface, uct_tag_t tag, uct_tag_t mask,
                                  const uct_iov_t* iov, size_t count, uct_tag_context_t* context);
ucs_status_t iface_tag_recv_cancel(uct_iface_h iface, uct_tag_context_t* context, int force);

}  // namespace tern
