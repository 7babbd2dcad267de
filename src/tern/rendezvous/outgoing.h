// SPDX-License-Identifier: BSD-3-Clause
// The sending half of an interface's transfers: puts, and what peers get.
#pragma once

#include <array>
#include <utility>

#include "tern/rendezvous/half.h"
#include "tern/rendezvous/placed.h"

namespace tern {

// The outgoing transfers whose receiver takes part, by its number. Pure.
class ByReceiver {
  public:
    void add(Outgoing& transfer) {
        Outgoing*& first = bucket(*transfer.channel, transfer.receiver);
        transfer.next_of_bucket = std::exchange(first, &transfer);
    }
    // Removes it if it is here.
    void remove(const Outgoing& transfer) {
        Outgoing** at = &bucket(*transfer.channel, transfer.receiver);
        while (*at != nullptr && *at != &transfer) at = &(*at)->next_of_bucket;
        if (*at != nullptr) *at = transfer.next_of_bucket;
    }
    // Null: there is none.
    Outgoing* find(const Channel& channel, uint32_t receiver) {
        Outgoing* transfer = bucket(channel, receiver);
        while (transfer != nullptr &&
               (transfer->channel != &channel || transfer->receiver != receiver))
            transfer = transfer->next_of_bucket;
        return transfer;
    }

  private:
    static constexpr uint32_t kBuckets = 1024;

    // Peers number their transfers from 0 on.
    Outgoing*& bucket(const Channel& channel, uint32_t receiver) {
        return first_[(receiver + 97 * channel.index) % kBuckets];
    }

    std::array<Outgoing*, kBuckets> first_{};
};

// Owns the outgoing transfers: offers them, lets them take turns at writing, and ends them. One
// thread at a time.
class OutgoingTransfers : public TransferHalf<Outgoing, Fetch> {
  public:
    explicit OutgoingTransfers(const RendezvousPart& part);

    // Begins a put with a transfer from take(), whose buffers are set.
    void put(Outgoing& transfer, uint64_t to, const WireKey& key, uint32_t rkey);
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
    // Makes offers, lends staging memory and posts writes, as far as possible.
    unsigned advance();

    // Frames of peers. False: the frame is invalid.
    bool fetch(Channel& channel, const std::byte* data, uint32_t length);
    bool accepted(Channel& channel, const std::byte* data, uint32_t length);
    bool part(Channel& channel, const std::byte* data, uint32_t length);
    bool acknowledged(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    // From the engine: a write or a channel is over.
    void written(Outgoing::Write& write, Status status);
    // See Rendezvous::flush_by_force(). Returns how many operations have ended.
    unsigned drop(const Channel& channel, const void* user);
    // Null: all channels are over.
    void ended(Channel* channel, Status status);

    uint64_t registered_bytes() const { return rings_.registered_bytes(); }

  private:
    void offer(Outgoing& transfer);
    unsigned make_offers();
    bool serve(Channel& channel, const Fetch& frame);
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
    PeerTurns<Outgoing*> offers_;  // to be made
    ByReceiver by_receiver_;       // of `running_`
};

}  // namespace tern
