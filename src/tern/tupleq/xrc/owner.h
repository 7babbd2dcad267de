// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tern/matching/posted_receives.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/rendezvous/rendezvous.h"

namespace tern {

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
