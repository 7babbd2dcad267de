// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of an interface's transfers: gets, and what peers put.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "rendezvous/incoming_reads.h"
#include "rendezvous/incoming_writes.h"
#include "rendezvous/refusals.h"
#include "rendezvous/ring_pool.h"
#include "rendezvous/ring_queue.h"
#include "rendezvous/waiting_requests.h"

namespace tern {

// Owns the incoming transfers and their rings: begins them, lends rings to peers in turn, lets the
// transfers take turns, and ends them. One thread at a time.
class IncomingTransfers {
  public:
    IncomingTransfers(Engine& engine, TransferMemory& memory, TransferAccounts& accounts,
                      Refusals& refusals, const Policy& policy, const RendezvousSettings& settings,
                      RendezvousCounters& counters, SchemeTimings& timings, ProgressBudget& budget);
    ~IncomingTransfers();
    IncomingTransfers(const IncomingTransfers&) = delete;
    IncomingTransfers& operator=(const IncomingTransfers&) = delete;

    bool has_room() const { return table_.has_room(); }
    // See Rendezvous::get() and Rendezvous::get_owned(). There must be room.
    void get(Channel& channel, const Buffers& to, uint64_t from, const WireKey& key, uint32_t rkey,
             Source source, void* cookie, const Reply* reply);
    void get_owned(Channel& channel, std::unique_ptr<std::byte[]> memory, size_t length,
                   uint64_t from, const WireKey& key, uint32_t rkey, Unpack unpack, void* argument,
                   void* cookie);
    // Whether decide() has the message read; see Rendezvous::rkey_to_read().
    bool reads(std::span<const Buffers::Piece> to, const Source& source) const;

    // Apart from requests that wait for a place: see TransferAccounts::any_work().
    bool quiet() const { return waiting_.empty() && running_.empty(); }
    // Begins transfers that wait for a place, a connection, a ring or a budget, if they can begin.
    unsigned begin_waiting();
    // Moves on the transfers that have begun.
    unsigned advance();
    // As Rendezvous::arm().
    Status arm(std::vector<Watched>& words);
    bool pending(const Channel& channel, uint64_t until) const {
        return table_.any_pending(channel, until);
    }
    bool may_be_overtaken(const Channel& channel, uint64_t until) const;
    void request_reports() const;

    // Frames of peers. False: the frame is invalid.
    bool deliver(Channel& channel, const std::byte* data, uint32_t length);
    bool finish(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    bool notified(Channel& channel, uint32_t immediate);
    // From the engine: a read or a channel is over.
    void have_read(Incoming::Read& read, Status status);
    // Null: all channels are over.
    void ended(Channel* channel, Status status);

    uint64_t registered_bytes() const { return rings_.registered_bytes(); }

  private:
    static constexpr uint32_t kPatience = 1 << 14;  // calls of progress without a free ring

    enum class Start : uint8_t {
        kBegun,   // or to be ended: it is in Waiting::failed
        kNoRing,  // it waits for a ring
        kLater,   // the budget of this call of progress is spent
    };

    // Transfers that have not begun.
    struct Waiting {
        std::deque<Incoming*> for_connection;  // of users whose channels are not up yet
        RingQueue for_ring;
        std::deque<Incoming*> for_budget;
        std::vector<Incoming*> failed;  // to be ended with an error
        uint32_t without_ring = 0;      // calls of progress without a free ring

        bool empty() const {
            return for_connection.empty() && for_ring.empty() && for_budget.empty() &&
                   failed.empty();
        }
        void remove(Incoming& transfer);
    };

    bool may_serve(const Channel& channel) const { return table_.serves(channel.incoming); }
    bool serve(Channel& channel, const Deliver& offer);
    unsigned serve_waiting();
    Incoming* take();
    void begin_get(Incoming& transfer, uint64_t from, const WireKey& key, uint32_t rkey);
    void begin(Incoming& transfer);
    void wait(Incoming& transfer, Start why);

    Decision decide_scheme(Incoming& transfer);
    Start start(Incoming& transfer, bool may_lend);
    Start start_reading(Incoming& transfer, bool may_lend);
    void run(Incoming& transfer, Incoming::State state);
    Start pin_all(Incoming& transfer);
    bool lend_ring(Incoming& transfer, bool may_lend);
    bool ring_will_come(const Incoming& transfer, bool may_lend) const;
    Incoming* next_for_ring() const;
    Start go_on_reading(Incoming& transfer);
    Start without_ring(Incoming& transfer, bool may_lend);
    unsigned do_without_rings();
    Start fail_without_rings(Incoming& transfer);
    Start give_up(Incoming& transfer);

    unsigned step(Incoming& transfer);
    unsigned step_reading(Incoming& transfer);
    void learn(const Incoming& transfer);
    void end(Incoming& transfer, Status status);

    Engine& engine_;
    TransferMemory& memory_;
    TransferAccounts& accounts_;
    Refusals& refusals_;
    const Policy& policy_;
    const RendezvousSettings& settings_;
    RendezvousCounters& counters_;
    SchemeTimings& timings_;
    ProgressBudget& budget_;
    RingPool rings_;
    IncomingPins pins_;
    IncomingWrites writes_;
    IncomingReads reads_;
    uint64_t generation_;  // of the flags in the ring lent last
    TransferTable<Incoming> table_;
    WaitingRequests<Deliver> requests_;
    Waiting waiting_;
    std::vector<Incoming*> running_;  // kAsking, kRunning, kReading
    size_t next_ = 0;                 // in running_: comes first if the last budget was too small
};

}  // namespace tern
