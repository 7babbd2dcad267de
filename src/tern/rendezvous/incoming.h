// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of an interface's transfers: gets, and what peers put.
#pragma once

#include <vector>

#include "tern/engine/idle_time.h"
#include "tern/rendezvous/half.h"
#include "tern/rendezvous/read.h"

namespace tern {

// Owns the incoming transfers and their rings: decides how the bytes of a transfer come, gets it a
// ring or pins, lets transfers take turns, and ends them. One thread at a time.
class IncomingTransfers : public TransferHalf<Incoming, Deliver> {
  public:
    explicit IncomingTransfers(const RendezvousPart& part);

    // Begins a get with a transfer from take(), whose buffers are set.
    void get(Incoming& transfer, uint64_t from, const WireKey& key, uint32_t rkey);

    // Apart from requests that wait for a place: see TransferAccounts::any_work().
    bool quiet() const {
        return later_.empty() && failed_.empty() && unconnected_.empty() && !rings_.any_waits() &&
               running_.empty();
    }
    // Begins transfers that wait for a place, a connection, a ring or a budget, if they can begin.
    unsigned begin_waiting();
    // Moves on the transfers that have begun.
    unsigned advance();
    // As Rendezvous::arm().
    Status arm(std::vector<Watched>& words);

    // Frames of peers. False: the frame is invalid.
    bool deliver(Channel& channel, const std::byte* data, uint32_t length);
    bool finish(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    bool notified(Channel& channel, uint32_t immediate);
    // From the engine: a read or a channel is over.
    void have_read(Incoming::Read& read, Status status);
    // See Rendezvous::flush_by_force(). Returns how many operations have ended.
    unsigned drop(const Channel& channel, const void* user);
    // Null: all channels are over.
    void ended(Channel* channel, Status status);

    uint64_t registered_bytes() const { return rings_.registered_bytes(); }

  private:
    enum class Prepared : uint8_t {
        kReady,   // the transfer may begin
        kNoRing,  // it waits for a ring
        kLater,   // the budget of this call of progress is spent
        kFailed,  // it cannot begin, and is to be ended with an error; the peer is refused
    };

    bool serve(Channel& channel, const Deliver& offer);
    void begin(Incoming& transfer);
    Prepared prepare(Incoming& transfer, bool may_lend);
    Prepared prepare_placed(Incoming& transfer, bool may_lend);
    void decide(Incoming& transfer);
    void note(Incoming& transfer, Scheme scheme, Reason reason);
    void decide_again(Incoming& transfer, const DecisionInputs& inputs);
    Prepared fail_without_rings(Incoming& transfer);
    Prepared fail(const Incoming& transfer);
    void proceed(Incoming& transfer, Prepared how);
    void run(Incoming& transfer);
    void wait_for_ring(Incoming& transfer);
    unsigned lend_rings();
    unsigned do_without_rings();

    Step step(Incoming& transfer);
    Step step_reading(Incoming& transfer);
    void end(Incoming& transfer, Status status);

    IncomingRings rings_;
    IncomingPins pins_;
    IncomingWrites writes_;
    Reads reads_;
    PeerTurns<Incoming*> later_;     // have not begun, and wait for a budget
    std::vector<Incoming*> failed_;  // to be ended with an error
    IdleTime without_ring_;          // while transfers wait for a ring, and none gets one
};

}  // namespace tern
