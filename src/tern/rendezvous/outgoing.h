// SPDX-License-Identifier: BSD-3-Clause
// The sending half of an interface's transfers: puts, and what peers get.
#pragma once

#include <memory>

#include "tern/rendezvous/placed.h"

namespace tern {

// Owns the outgoing transfers: offers them, lets them take turns at writing, and ends them. One
// thread at a time.
class OutgoingTransfers : RendezvousPart {
  public:
    explicit OutgoingTransfers(const RendezvousParts& parts);
    ~OutgoingTransfers();

    bool has_room() const { return table_.has_room(); }
    // See Rendezvous::put() and Rendezvous::put_owned(). There must be room.
    void put(Channel& channel, const Buffers& from, uint64_t to, const WireKey& key, uint32_t rkey,
             const Waiter& waiter);
    void put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length, uint64_t to,
                   const WireKey& key);
    // See Rendezvous::make_early_copy() and Rendezvous::drop_early_copy().
    uint64_t make_early_copy(Channel& channel, const Announced& message) {
        return early_.make(channel, message, staging_.any_waiting());
    }
    void drop_early_copy(uint64_t number) { early_.drop(number); }

    // Apart from requests that wait for a place: see TransferAccounts::any_work().
    bool quiet() const {
        return unconnected_.empty() && offers_.empty() && !staging_.any_waiting() &&
               running_.empty();
    }
    // Whether a request of a peer has waited for a place, and there is one now.
    bool may_serve() const {
        return requests_.any([this](const Channel& each) { return may_serve(each); });
    }
    // Makes offers, lends staging memory and posts writes, as far as possible.
    unsigned advance();
    void request_reports() const;
    // Regions have been undeclared that transfers use.
    void wake_revoked() {
        table_.for_each([this](Outgoing& transfer) {
            if (transfer.use != nullptr && transfer.use->revoked()) running_.wake(transfer);
        });
    }
    uint64_t steps() const { return running_.steps(); }

    // Frames of peers. False: the frame is invalid.
    bool fetch(Channel& channel, const std::byte* data, uint32_t length);
    bool accepted(Channel& channel, const std::byte* data, uint32_t length);
    bool part(Channel& channel, const std::byte* data, uint32_t length);
    bool acknowledged(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    // From the engine: a write or a channel is over.
    void written(Outgoing::Write& write, Status status);
    // See Rendezvous::flush_by_force().
    // Returns how many operations have ended.
    unsigned drop(const Channel& channel, const void* user);
    // Null: all channels are over.
    void ended(Channel* channel, Status status);

    uint64_t registered_bytes() const { return rings_.registered_bytes(); }

  private:
    static constexpr uint32_t kWritesAtOnce = 2;  // in one step

    void begin_put(Outgoing& transfer, uint64_t to, const WireKey& key, uint32_t rkey);
    void offer(Outgoing& transfer);
    unsigned make_offers();
    bool may_serve(const Channel& channel) const {
        return table_.serves(transfers_on(channel).outgoing);
    }
    bool serve(Channel& channel, const Fetch& frame);
    unsigned serve_waiting();
    Outgoing* offered(const Channel& channel, uint32_t number) const;
    bool start(Outgoing& transfer, const WireRing& ring, const WirePart& first);
    Step step(Outgoing& transfer);
    Next write(Outgoing& transfer, unsigned& count);
    void step_now(Outgoing& transfer) {
        running_.move_now(transfer, [this](Outgoing& each) { return step(each); });
    }
    unsigned end_starved();
    bool withdraw(Outgoing& transfer);
    void drop(Outgoing& transfer, Status status);
    void end(Outgoing& transfer, Status status);

    RingPool rings_;
    EarlyCopier early_;
    StagedWrites staging_;
    PlacedWrites placed_;
    TransferTable<Outgoing> table_;
    WaitingRequests<Fetch> requests_;
    PeerTurns<Outgoing*> unconnected_;  // of users whose channels are not up yet
    PeerTurns<Outgoing*> offers_;       // to be made
    Turns<Outgoing> running_;           // from kWriting on
    ByReceiver by_receiver_;            // of `running_`
};

}  // namespace tern
