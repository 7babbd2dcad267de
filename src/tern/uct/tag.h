// SPDX-License-Identifier: BSD-3-Clause
// UCT's tag-matching interface in software: its two halves, and its functions in UCT's tables.
#pragma once

#include "tern/uct/matching.h"
#include "tern/uct/tag_receives.h"
#include "tern/uct/tag_sends.h"

namespace tern {

class TagInterface : public Matching {
  public:
    TagInterface(Engine& engine, Rendezvous& rendezvous, uint32_t most,
                 const TagCallbacks& callbacks)
        : sends(rendezvous), receives(engine, rendezvous, most, callbacks, counters) {}

    const char* name() const override { return "tag matching in software"; }
    void query(const Engine& engine, uct_iface_attr_t& attributes) const override;
    void offer(uct_iface_ops_t& table) const override;
    MatchingCounters counts() const override { return {.tags = counters}; }
    bool control(Engine& engine, Channel& channel, uint32_t id, const std::byte* data,
                 uint32_t length) override;
    Status ended(Channel& channel, Status status) override;
    void left(const TernEp& ep) override { sends.left(ep); }
    // Messages that are announced wait for receives that the program posts, and the engine does not
    // know of them.
    bool may_end() const override { return false; }
    bool idle() const override { return !receives.has_work(); }
    // Other work waits for room in a send queue: the completion that makes room wakes the
    // interface.
    Status arm() override { return receives.any_canceled() ? Status::kInProgress : Status::kOk; }

    TagCounters counters;
    TagSends sends;
    TagReceives receives;

  protected:
    // A control frame of TupleQ.
    virtual bool on_tuple(Engine& engine, Channel& channel, uint32_t id, const std::byte* data,
                          uint32_t length);
};

// The interface with a TagInterface; see iface_progress.h.
struct TagIface : TernIface {
    static constexpr bool kMatches = true;
    static constexpr bool kDirect = false;

    TagInterface& tags() const { return static_cast<TagInterface&>(*matching); }

    bool tagged(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
        return tags().receives.arrived(channel, id, data, length);
    }
    bool matching_has_work() const { return tags().sends.has_work() || tags().receives.has_work(); }
    unsigned progress_sends() {
        tags().sends.progress(*engine);
        return 0;
    }
    unsigned progress_receives() {
        return tags().receives.has_work() ? tags().receives.progress() : 0;
    }
    ucs_status_t post(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                      uct_tag_context_t* context) {
        return tags().receives.post(tag, mask, iov, count, context);
    }
    ucs_status_t cancel(uct_tag_context_t* context, bool force) {
        return tags().receives.cancel(context, force);
    }
};

// Whether the user wants tag matching: it asks for that feature, or names no features.
bool wants_tags(const uct_iface_params_t& params);
// The callbacks in `params`, or callbacks that drop messages.
TagCallbacks tag_callbacks(const uct_iface_params_t& params);
// Puts the functions that send tagged messages, and the others, of this type of interface into the
// table.
template <class Iface>
void offer_tag_sends(uct_iface_ops_t& table);
template <class Iface>
void offer_tags(uct_iface_ops_t& table);

}  // namespace tern
