// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tern/rendezvous/rendezvous.h"
#include "tern/tupleq/xrc/tupleq.h"
#include "tern/uct/ucx_headers.h"

struct TernEp;

namespace tern {

// Counts of the tag interface's work.
struct TagCounters {
    uint64_t posted = 0;        // receives
    uint64_t wildcards = 0;     // of these, with another mask than the key's
    uint64_t refused = 0;       // receives for which there was no room
    uint64_t canceled = 0;      // receives
    uint64_t matched = 0;       // eager messages that found a receive
    uint64_t unexpected = 0;    // eager messages that found none
    uint64_t truncated = 0;     // messages of any kind longer than their receive
    uint64_t rndv_matched = 0;  // requests to send that found a receive
    uint64_t rndv_unexpected = 0;
    uint64_t software_matched = 0;  // requests that UCX handles in software
    uint64_t software_unexpected = 0;
    uint64_t eager_sent = 0;
    uint64_t rndv_sent = 0;
    uint64_t rndv_canceled = 0;  // of these, canceled by the sender
    uint64_t software_sent = 0;
};

struct MatchingCounters {
    TagCounters tags;
    TupleQCounters placed;
    TupleCounters tuples;
    uint32_t queues = 0;            // of tuples, in use
    uint64_t registered_bytes = 0;  // for direct messages
};

// The part of an interface that matches tags: this one matches none. TagInterface (tag.h) does so
// in software, and DirectTags (tag_direct.h) by the device too. Control path: for each message the
// types TagIface and DirectIface have functions of their own.
class Matching {
  public:
    virtual ~Matching() = default;

    virtual const char* name() const { return "no tag matching"; }
    // Adds the capabilities, and puts the functions into the interface's table.
    virtual void query(const Engine&, uct_iface_attr_t&) const {}
    virtual void offer(uct_iface_ops_t&) const {}
    virtual MatchingCounters counts() const { return {}; }

    // Handles a control frame from ControlId::kFirstTag on. False: the frame is malformed.
    virtual bool control(Engine&, Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
    // The channel is over. Returns the status for its endpoints.
    virtual Status ended(Channel&, Status status) { return status; }
    // The endpoint is destroyed.
    virtual void left(const TernEp&) {}
    // These answer the calls of the same names of EngineOwner, for all channels.
    virtual bool may_end() const { return true; }
    virtual void broken() {}
    virtual void queue_failed(const void*, const std::string&) {}

    // For flushes of the interface: whether nothing is under way. For its events: as Engine::arm().
    virtual bool idle() const { return true; }
    virtual Status arm() { return Status::kOk; }

    // Messages that go by other queues than the channel's: what follows is of DirectSender.
    virtual bool stop() { return false; }
    // `by_force`: as Rendezvous::flush_by_force().
    virtual Status flush(Rendezvous& rendezvous, Channel& channel, const Waiter& waiter,
                         bool by_force) {
        return by_force ? rendezvous.flush_by_force(channel, waiter)
                        : rendezvous.flush(channel, waiter);
    }
    virtual void cancel_flushes(const Channel&, const void*) {}
    virtual uint64_t sent(const Channel&) const { return 0; }
    virtual bool arrived(const Channel&, uint64_t) const { return true; }
    virtual bool may_overtake(const Channel&) const { return false; }
};

}  // namespace tern
