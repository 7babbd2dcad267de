// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "connection/cookie.h"
#include "rendezvous/early_copies.h"
#include "rendezvous/ring_pool.h"
#include "rendezvous/sender.h"
#include "rendezvous/transfer_context.h"

namespace tern {

// The half that has them.
//
//   kFree        this side's user puts                               kOffering
//                the peer's fetch has come                           kWriting
//   kOffering    the deliver has been sent                           kOffered
//                the peer's memory is open: it takes no part         kWriting
//   kOffered     the peer's accept has come                          kWriting
//                the peer refuses                                    kFree
//   kWriting     staging memory is needed, and all is lent           kWaiting
//                all is posted, and the finish has been sent         kFinished
//                the memory is declared no more: the refusal of the
//                rest has been sent                                  kWithdrawn
//                all that was written to open memory has arrived     kFree
//   kWaiting     staging memory is lent, or not needed any more      kWriting
//   kWriting, kFinished, kWithdrawn
//                the peer ends it, and no write is under way         kFree
//                the same, and writes are under way                  kEnded
//   kEnded       the last of them is complete                        kFree
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

    // Direct writes that are under way from the same memory, as the cookie of their work requests.
    struct Write {
        Outgoing* owner = nullptr;
        uint32_t under_way = 0;
    };

    // The peer takes no part: its memory is open to writes.
    bool alone() const { return rkey != 0; }
    uint32_t under_way() const {
        return gather.under_way + halves[0].under_way + halves[1].under_way + reclaim.under_way;
    }

    State state = State::kFree;
    uint32_t rkey = 0;                   // of memory that is open to writes; 0: it is not
    Status status = Status::kOk;         // at the end
    uint32_t receiver = 0;               // the peer's number
    std::unique_ptr<std::byte[]> owned;  // of a put whose data was copied at once
    std::optional<Sender> core;
    RingPool::Ring staging;  // slots is 0 if there is none
    EarlyChunk early;        // is in it
    WireRing to;
    bool source_planned = false;
    SourcePlan source;
    double copy_bytes = 0;    // of the next direct write by way of staging memory
    uint64_t pin_end = 0;     // `pin` covers what is left of the message up to here
    uint64_t ahead_end = 0;   // the same of `ahead`
    Write halves[2];          // of the staging memory
    Write gather;             // from the user's memory
    Write reclaim;            // not a write: all that is under way, as a flush waits for it
    uint64_t reclaim_at = 0;  // sub-blocks staged when that began
};

// The half of an interface's transfers that has the bytes: puts, and what peers get.
class Sends {
  public:
    explicit Sends(TransferContext& context);
    ~Sends();
    Sends(const Sends&) = delete;
    Sends& operator=(const Sends&) = delete;

    bool has_room() const { return table_.has_room(); }
    // See Mover::put() and Mover::put_owned(). There must be room.
    void put(Channel& channel, const Buffers& from, uint64_t to, const WireKey& key, uint32_t rkey,
             void* cookie);
    void put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length, uint64_t to,
                   const WireKey& key);
    // See Mover.
    uint64_t make_early_copy(Channel& channel, const void* from, uint64_t length,
                             const WireKey& key, bool returns);
    void drop_early_copy(uint64_t number);

    bool quiet() const {
        return early_.empty() && offers_.empty() && waiting_.empty() && running_.empty();
    }
    // Offers, lends and posts what can be.
    unsigned advance();
    bool pending(const Channel& channel, uint64_t until) const;
    bool may_be_overtaken(const Channel& channel, uint64_t until) const;
    void request_reports() const;

    // Frames of peers. False if one makes no sense.
    bool fetch(Channel& channel, const std::byte* data, uint32_t length);
    bool accepted(Channel& channel, const std::byte* data, uint32_t length);
    bool part(Channel& channel, const std::byte* data, uint32_t length);
    bool acknowledged(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    // From the engine: a write is over; a channel is.
    void written(Outgoing::Write& write, Status status);
    void ended(Channel& channel, Status status);

    uint64_t registered_bytes() const { return staging_.registered_bytes(); }

  private:
    static constexpr uint32_t kWritesAtOnce = 2;           // of one transfer before the next's turn
    static constexpr uint64_t kLongestWrite = 512 * 1024;  // bytes, of a direct one

    // sends.cc
    void begin_put(Outgoing& transfer, uint64_t to, const WireKey& key, uint32_t rkey);
    void offer(Outgoing& transfer);
    unsigned make_offers();
    Outgoing* offered(const Channel& channel, uint32_t number) const;
    Outgoing* of_receiver(const Channel& channel, uint32_t receiver) const;
    bool start(Outgoing& transfer, const WireRing& ring, const WirePart& first);
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
    bool post_staged(Outgoing& transfer, const Sender::Chunk& chunk);
    bool post_direct(Outgoing& transfer, Sender::Chunk& chunk);
    bool write_direct(Outgoing& transfer, const Sender::Chunk& chunk, const std::byte* from,
                      uint32_t lkey, Outgoing::Write& write);
    bool prepare_source(Outgoing& transfer, uint64_t upto);
    void plan_source(Outgoing& transfer, const Sender::Chunk& chunk);
    bool pin_source(Outgoing& transfer, Sender::Chunk& chunk);
    void pin_behind(Outgoing& transfer, uint64_t offset);
    unsigned pin_ahead(Outgoing& transfer);

    TransferContext& context_;
    RingPool staging_;
    TransferTable<Outgoing> table_;
    std::deque<Outgoing*> early_;     // of users, whose channels are not up yet
    std::deque<Outgoing*> offers_;    // to be made
    std::deque<Outgoing*> waiting_;   // for staging memory
    std::vector<Outgoing*> running_;  // and waiting for the last acknowledgement
    EarlyCopies early_copies_;
};

}  // namespace tern
