// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "connection/cookie.h"
#include "rendezvous/early_copies.h"
#include "rendezvous/ring_pool.h"
#include "rendezvous/chunk_source.h"
#include "rendezvous/transfer_memory.h"

namespace tern {

// The sending half of a transfer. States, events, next states:
//
//   kFree        this side's user puts                               kOffering
//                the peer's fetch has come                           kWriting
//   kOffering    the deliver has been sent                           kOffered
//                the peer's memory is open, so it takes no part      kWriting
//   kOffered     the peer's accept has come                          kWriting
//                the peer refuses                                    kFree
//   kWriting     staging memory is needed, and all is lent           kWaiting
//                all is posted, and the finish has been sent         kFinished
//                the memory was undeclared, and the refusal of the
//                rest has been sent                                  kWithdrawn
//                all writes to open memory have completed            kFree
//   kWaiting     staging memory is lent, or not needed any more      kWriting
//                staging memory cannot be registered                 kFree
//   kWriting, kFinished, kWithdrawn
//                the peer ends the transfer, no write is under way   kFree
//                the same, and writes are under way                  kEnded
//   kEnded       the last write is complete                          kFree
//   all          the connection ends                                 kFree
struct Outgoing : Transfer {
    enum class State : uint8_t {
        kFree,
        kOffering,
        kOffered,
        kWriting,
        kWaiting,
        kFinished,
        kWithdrawn,
        kEnded
    };

    // Direct writes under way from the same memory. The cookies of their work requests point here.
    struct Write {
        Outgoing* owner = nullptr;
        uint32_t under_way = 0;
    };

    // The peer takes no part, because its memory is open to writes.
    bool alone() const { return rkey != 0; }
    uint32_t under_way() const {
        return gather.under_way + halves[0].under_way + halves[1].under_way + reclaim.under_way;
    }

    State state = State::kFree;
    uint32_t rkey = 0;                   // of memory that is open to writes; 0: not open
    Status status = Status::kOk;         // at the end
    uint32_t receiver = 0;               // the peer's number
    std::unique_ptr<std::byte[]> owned;  // memory of put_owned()
    std::optional<Sender> core;
    RingPool::Ring staging;  // slots is 0: none
    EarlyChunk early;        // in `staging`
    WireRing to;
    bool source_decided = false;
    SourceDecision source;
    double copy_bytes = 0;    // length of the next direct write from staging memory
    uint64_t pin_end = 0;     // end of what `pin` covers, in the message
    uint64_t ahead_end = 0;   // the same for `ahead`
    Write halves[2];          // from the halves of staging memory
    Write gather;             // from the user's memory
    Write reclaim;            // no write, but a flush of all that is under way
    uint64_t reclaim_at = 0;  // Sender::staged() when the flush began
};

// The sending half of an interface's transfers: puts, and what peers get.
class Sends {
  public:
    explicit Sends(TransferContext& context);
    ~Sends();
    Sends(const Sends&) = delete;
    Sends& operator=(const Sends&) = delete;

    bool has_room() const { return table_.has_room(); }
    // See Rendezvous::put() and Rendezvous::put_owned(). There must be room.
    void put(Channel& channel, const Buffers& from, uint64_t to, const WireKey& key, uint32_t rkey,
             void* cookie);
    void put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length, uint64_t to,
                   const WireKey& key);
    // See Rendezvous::make_early_copy() and Rendezvous::drop_early_copy().
    uint64_t make_early_copy(Channel& channel, const Announced& message);
    void drop_early_copy(uint64_t number);

    bool quiet() const {
        return unconnected_.empty() && offers_.empty() && waiting_.empty() && running_.empty();
    }
    // Makes offers, lends staging memory and posts writes, as far as possible.
    unsigned advance();
    bool pending(const Channel& channel, uint64_t until) const;
    bool may_be_overtaken(const Channel& channel, uint64_t until) const;
    void request_reports() const;

    // Frames of peers. False: the frame is invalid.
    bool fetch(Channel& channel, const std::byte* data, uint32_t length);
    bool accepted(Channel& channel, const std::byte* data, uint32_t length);
    bool part(Channel& channel, const std::byte* data, uint32_t length);
    bool acknowledged(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    // From the engine: a write or a channel is over.
    void written(Outgoing::Write& write, Status status);
    void ended(Channel& channel, Status status);

    uint64_t registered_bytes() const { return staging_.registered_bytes(); }

  private:
    static constexpr uint32_t kWritesAtOnce = 2;           // in one turn of a transfer
    static constexpr uint64_t kLongestWrite = 512 * 1024;  // bytes, of a direct write

    // sends.cc
    void begin_put(Outgoing& transfer, uint64_t to, const WireKey& key, uint32_t rkey);
    void offer(Outgoing& transfer);
    unsigned make_offers();
    Outgoing* offered(const Channel& channel, uint32_t number) const;
    Outgoing* of_receiver(const Channel& channel, uint32_t receiver) const;
    bool start(Outgoing& transfer, const WireRing& ring, const WirePart& first);
    void note_wait(bool waited);
    bool withdraw(Outgoing& transfer);
    void over(Outgoing& transfer, Status status);

    // sends_staging.cc
    bool stage(Outgoing& transfer);
    bool lend_staging(Outgoing& transfer);
    unsigned lend_to_waiting();
    void reclaim_staging();
    void take_staging_back(Outgoing& transfer);
    void drop(const EarlyCopy& copy);
    void take_early_copy(Outgoing& transfer, const Fetch& frame);

    // sends_post.cc
    unsigned step(Outgoing& transfer);
    void step_now(Outgoing& transfer);
    bool post_staged(Outgoing& transfer, const Sender::Chunk& chunk);
    bool post_direct(Outgoing& transfer, Sender::Chunk& chunk);
    bool write_direct(Outgoing& transfer, const Sender::Chunk& chunk, const std::byte* from,
                      uint32_t lkey, Outgoing::Write& write);
    bool prepare_source(Outgoing& transfer, uint64_t upto);
    void choose_source(Outgoing& transfer, const Sender::Chunk& chunk);
    static bool must_pin(const Outgoing& transfer, const Sender::Chunk& chunk);
    bool pin_source(Outgoing& transfer, Sender::Chunk& chunk);
    uint64_t piece_at(const Outgoing& transfer, uint64_t offset) const;
    bool may_pin(const Outgoing& transfer, uint64_t offset);
    bool find_behind(Outgoing& transfer, uint64_t offset);
    void pin_behind(Outgoing& transfer, uint64_t offset);
    unsigned pin_ahead(Outgoing& transfer);

    TransferContext& context_;
    RingPool staging_;
    TransferTable<Outgoing> table_;
    std::deque<Outgoing*> unconnected_;  // of users whose channels are not up yet
    std::deque<Outgoing*> offers_;       // to be made
    std::deque<Outgoing*> waiting_;      // for staging memory
    std::vector<Outgoing*> running_;     // from kWriting on
    size_t next_ = 0;                    // in running_: comes first if the last turn was too short
    EarlyCopies early_copies_;
};

}  // namespace tern
