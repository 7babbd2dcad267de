// SPDX-License-Identifier: BSD-3-Clause
// How incoming transfers come to begin.
#pragma once

#include <cstdint>

#include "tern/rendezvous/placed.h"

namespace tern {

// Decides how the bytes of a transfer come, and gets it what it needs for that: a ring, or pins.
// Does not begin transfers, queue or end them: its owner does.
class IncomingPreparation : RendezvousPart {
  public:
    enum class Result : uint8_t {
        kReady,   // the transfer may begin
        kNoRing,  // it waits for a ring
        kLater,   // the budget of this call of progress is spent
        kFailed,  // it cannot begin, and is to be ended with an error; the peer is refused
    };

    IncomingPreparation(const RendezvousParts& parts, IncomingRings& rings, IncomingPins& pins)
        : RendezvousPart(parts), rings_(rings), pins_(pins) {}

    // Prepares a waiting transfer as far as possible. May be called again until kReady. `may_lend`:
    // the transfer may get a ring now.
    Result prepare(Incoming& transfer, bool may_lend);
    // The transfer, in one piece, has waited long enough for a ring: it does without, if its memory
    // can be pinned.
    void on_rings_taken(Incoming& transfer);
    // Not even a small ring can be registered.
    Result fail_without_rings(Incoming& transfer);

  private:
    Result prepare_placed(Incoming& transfer, bool may_lend);
    Result prepare_reads(Incoming& transfer, bool may_lend);
    Decision decide_scheme(Incoming& transfer);
    Result pin_all(Incoming& transfer);
    Result without_ring(Incoming& transfer, bool may_lend);
    Result fail(const Incoming& transfer);
    void note(Incoming& transfer, Scheme scheme, Reason reason);
    void decide_again(Incoming& transfer, const DecisionInputs& inputs);

    IncomingRings& rings_;
    IncomingPins& pins_;
};

}  // namespace tern
