// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tern/base/tunables.h"
#include "tern/matching/posted_receives.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/rendezvous/rendezvous.h"
#include "tern/tupleq/core/held_frames.h"
#include "tern/tupleq/core/policy.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

struct TupleQSettings {
    uint32_t tuples = 0;                  // bound at a time, at most, in each direction; 0: none
    uint32_t depth = kTunables.tm_depth;  // receives granted at a time for each tuple
    uint32_t sends = 256;                 // under way to a node at a time
    uint32_t inline_bytes = 128;
    uint32_t copy_most = 8192;  // bytes, of messages that are copied to be sent
    // ns: how long an announced message may take to come, if a receive that is to be canceled or
    // messages of other peers wait for it.
    uint64_t announced_limit = 2'000'000'000;
    bool pages_on_demand = false;  // memory is not pinned: the device faults its pages in
    HeldFrames::Limits held;
    TuplePolicy::Limits policy;
    verbs::RetrySettings retry;

    // Entries of the completion queue that all tuples and this many links need. A destroyed queue
    // may leave as many completions behind as it had receives, so each queue counts twice.
    uint64_t completions(uint32_t links) const;
    // These settings, reduced to what the device can hold, so that no queue overflows. `tuples` is
    // 0 if the device cannot hold any.
    TupleQSettings within(const ibv_device_attr& device) const;
};

// A posted receive, and the memory that its message may be placed in.
struct TupleReceive : PostedReceive {
    std::byte* buffer = nullptr;
    size_t room = 0;
    RegionKey region;  // the declaration of the memory; none if the generation is 0
};

// The owner of the direct path: its callbacks.
class TupleQOwner {
  public:
    // A send or a flush is complete.
    virtual void completed(void* cookie, Status status) = 0;
    // The receive is no longer posted: its message has come or is certain to come, or the receive
    // is canceled. Must not call TupleQ.
    virtual void taken(TupleReceive& receive) = 0;
    // The message of this tag is in the receive's memory or, unless the status is kOk, lost. The
    // receive is no longer posted.
    virtual void received(TupleReceive& receive, uint64_t tag, uint32_t length, Status status) = 0;
    // The receive is canceled; cancel() had returned kLater.
    virtual void canceled(TupleReceive& receive) = 0;
    // Held messages of this peer can be offered again. The peer's channel may be gone.
    virtual void retry(uint32_t peer) = 0;
    // Writes a warning to the log.
    virtual void warn(const std::string& text) = 0;

  protected:
    ~TupleQOwner() = default;
};

// The objects of the interface that direct messages use. `posted` must contain only TupleReceive.
struct TupleQParts {
    const verbs::Device& device;
    const verbs::Port& port;
    Engine& engine;
    Rendezvous& rendezvous;
    Regions& regions;
    PinCache& pins;
    PostedReceives& posted;
    TupleQOwner& owner;
};

}  // namespace tern
