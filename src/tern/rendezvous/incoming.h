// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of an interface's transfers: gets, and what peers put.
#pragma once

#include <memory>
#include <vector>

#include "tern/engine/idle_time.h"
#include "tern/rendezvous/incoming_preparation.h"
#include "tern/rendezvous/reads.h"

namespace tern {

// Owns the incoming transfers and their rings: begins them when they have been prepared, lets them
// take turns, and ends them. One thread at a time.
class IncomingTransfers : RendezvousPart {
  public:
    explicit IncomingTransfers(const RendezvousParts& parts);
    ~IncomingTransfers();

    bool has_room() const { return table_.has_room(); }
    // See Rendezvous::get() and Rendezvous::get_owned(). There must be room.
    void get(Channel& channel, const Buffers& to, uint64_t from, const WireKey& key, uint32_t rkey,
             Source source, const Waiter& waiter, const Reply* reply);
    void get_owned(Channel& channel, std::unique_ptr<std::byte[]> memory, size_t length,
                   uint64_t from, const WireKey& key, uint32_t rkey, Unpack unpack, void* argument,
                   const Waiter& waiter);

    // Apart from requests that wait for a place: see TransferAccounts::any_work().
    bool quiet() const { return waiting_.empty() && !rings_.any_waits() && running_.empty(); }
    // Begins transfers that wait for a place, a connection, a ring or a budget, if they can begin.
    unsigned begin_waiting();
    // Moves on the transfers that have begun.
    unsigned advance();
    // As Rendezvous::arm().
    Status arm(std::vector<Watched>& words);
    void request_reports() const;
    // Regions have been undeclared that transfers use.
    void wake_revoked() {
        table_.for_each([this](Incoming& transfer) {
            if (transfer.use != nullptr && transfer.use->revoked()) running_.wake(transfer);
        });
    }
    uint64_t steps() const { return running_.steps(); }

    // Frames of peers. False: the frame is invalid.
    bool deliver(Channel& channel, const std::byte* data, uint32_t length);
    bool finish(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    bool notified(Channel& channel, uint32_t immediate);
    // From the engine: a read or a channel is over.
    void have_read(Incoming::Read& read, Status status);
    // See Rendezvous::flush_by_force().
    // Returns how many operations have ended.
    unsigned drop(const Channel& channel, const void* user);
    // Null: all channels are over.
    void ended(Channel* channel, Status status);

    uint64_t registered_bytes() const { return rings_.registered_bytes(); }

  private:
    using Prepared = IncomingPreparation::Result;

    // Transfers that have not begun, and do not wait for a ring.
    struct Waiting {
        PeerTurns<Incoming*> for_connection;  // of users whose channels are not up yet
        PeerTurns<Incoming*> for_budget;
        std::vector<Incoming*> failed;  // to be ended with an error

        bool empty() const {
            return for_connection.empty() && for_budget.empty() && failed.empty();
        }
        void remove(Incoming& transfer);
    };

    bool may_serve(const Channel& channel) const {
        return table_.serves(transfers_on(channel).incoming);
    }
    bool serve(Channel& channel, const Deliver& offer);
    unsigned serve_waiting();
    Incoming* take();
    void begin_get(Incoming& transfer, uint64_t from, const WireKey& key, uint32_t rkey);
    void begin(Incoming& transfer);
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
    IncomingPreparation preparation_;
    IncomingWrites writes_;
    Reads reads_;
    TransferTable<Incoming> table_;
    WaitingRequests<Deliver> requests_;
    Waiting waiting_;
    IdleTime without_ring_;    // while transfers wait for a ring, and none gets one
    Turns<Incoming> running_;  // kAsking, kRunning, kReading
};

}  // namespace tern
