// SPDX-License-Identifier: BSD-3-Clause
// Tag matching by the device too: direct messages, which TupleQ has placed into their receives.
#pragma once

#include "tern/uct/tag.h"

namespace tern {

class DirectTags final : public TagInterface, public TupleQOwner {
  public:
    DirectTags(Engine& engine, Rendezvous& rendezvous, RendezvousOwner& owner, uint32_t most,
               const TagCallbacks& callbacks)
        : TagInterface(engine, rendezvous, most, callbacks), owner_(owner) {}
    // False: the device cannot do this; `why` gives the reason.
    bool open(const TupleQParts& parts, const TupleQSettings& settings, std::string& why) {
        tupleq_ = TupleQ::create(parts, settings, why);
        return tupleq_ != nullptr;
    }

    // Handles a frame of kind kTag. False: the frame is malformed.
    bool tagged(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    // Post and cancel a receive, like TagReceives.
    ucs_status_t post(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                      uct_tag_context_t* context);
    ucs_status_t cancel(uct_tag_context_t* context, bool force);
    TupleQ& tupleq() { return *tupleq_; }

    const char* name() const override { return "tag matching in software and by the device"; }
    void query(const Engine& engine, uct_iface_attr_t& attributes) const override;
    void offer(uct_iface_ops_t& table) const override;
    MatchingCounters counts() const override;
    Status ended(Channel& channel, Status status) override {
        return TagInterface::ended(channel, tupleq_->ended(channel, status));
    }
    void broken() override { tupleq_->break_down(); }
    void queue_failed(const void* identity, const std::string& what) override {
        tupleq_->queue_failed(identity, what);
    }
    bool idle() const override { return TagInterface::idle() && sender().idle(); }
    Status arm() override {
        const Status status = TagInterface::arm();
        return status == Status::kOk ? tupleq_->arm() : status;
    }
    bool stop() override { return sender().stop(); }
    Status flush(Rendezvous&, Channel& channel, const Waiter& waiter, bool by_force) override {
        return sender().flush(channel, waiter, by_force);
    }
    void cancel_flushes(const Channel& channel, const void* user) override {
        sender().cancel_flushes(channel, user);
    }
    uint64_t sent(const Channel& channel) const override { return sender().sent(channel); }
    bool arrived(const Channel& channel, uint64_t count) const override {
        return sender().arrived(channel, count);
    }
    bool may_overtake(const Channel& channel) const override {
        return sender().may_overtake(channel);
    }

  private:
    DirectSender& sender() const { return tupleq_->sender(); }
    bool on_tuple(Engine&, Channel& channel, uint32_t id, const std::byte* data,
                  uint32_t length) override {
        return tupleq_->control(channel, id, data, length);
    }

    void completed(void* cookie, Status status) override { owner_.completed(cookie, status); }
    void taken(TupleReceive& receive) override { TagReceives::taken(receive); }
    void received(TupleReceive& receive, uint64_t tag, uint32_t length, Status status) override {
        receives.received(receive, tag, length, status);
    }
    void canceled(TupleReceive& receive) override { receives.canceled(receive); }
    void retry(uint32_t peer) override;
    void warn(const std::string& text) override { owner_.warn(text); }

    RendezvousOwner& owner_;
    std::unique_ptr<TupleQ> tupleq_;
};

// The interface with a DirectTags; see iface_progress.h.
struct DirectIface : TagIface {
    static constexpr bool kDirect = true;

    DirectTags& tags() const { return static_cast<DirectTags&>(*matching); }

    bool tagged(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
        return tags().tagged(channel, id, data, length);
    }
    bool matching_has_work() const { return TagIface::matching_has_work() || tupleq->has_work(); }
    unsigned progress_sends() {
        const unsigned count = tupleq->progress();
        return count + TagIface::progress_sends();
    }
    ucs_status_t post(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                      uct_tag_context_t* context) {
        return tags().post(tag, mask, iov, count, context);
    }
    ucs_status_t cancel(uct_tag_context_t* context, bool force) {
        return tags().cancel(context, force);
    }
};

// Whether this query shows that the user sends some messages of a tag as active messages. Direct
// messages would not keep their order with those.
bool sends_tags_two_ways(const uct_perf_attr_t& asked);

}  // namespace tern
