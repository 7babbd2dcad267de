// SPDX-License-Identifier: BSD-3-Clause
// Incoming transfers whose bytes this side's device reads, without the sender.
#pragma once

#include <cstdint>

#include "tern/rendezvous/placed.h"

namespace tern {

// Posts the reads of memory whose rkey is known, into the user's memory or into halves of a ring.
// Does not end transfers: its owner does.
class Reads : RendezvousPart {
  public:
    Reads(const RendezvousPart& part, IncomingPins& pins, IncomingRings& rings)
        : RendezvousPart(part), pins_(pins), rings_(rings) {}

    struct Posted {
        unsigned count = 0;
        bool no_rings = false;    // none can be registered, so the transfer fails
        bool needs_ring = false;  // it has none, and there is none for it now
        Next next = Next::kOnEvent;
    };

    // Posts reads as far as possible. `may_lend`: the transfer may get a ring now.
    Posted post(Incoming& transfer, bool may_lend);
    // Takes what has been read, in order, and copies it to its place if need be.
    unsigned take(Incoming& transfer);

  private:
    bool find_room(Incoming& transfer, bool may_lend, Incoming::Read& read, ibv_sge& piece);
    bool prepare(Incoming& transfer, bool may_lend);

    IncomingPins& pins_;
    IncomingRings& rings_;
};

}  // namespace tern
