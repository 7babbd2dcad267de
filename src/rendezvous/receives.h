// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "connection/cookie.h"
#include "rendezvous/receiver.h"
#include "rendezvous/ring_pool.h"
#include "rendezvous/transfer_context.h"

namespace tern {

// Takes the bytes that a get has brought.
using Unpack = void (*)(void* argument, const void* data, size_t length);

// The half that takes the bytes.
//
//   kFree      this side's user gets, or the peer offers             kWaiting
//   kWaiting   a ring, or a pin, is there: the way is decided        kAsking
//              the peer's memory is open: reads are posted           kReading
//   kAsking    the fetch or the accept has been sent                 kRunning
//   kRunning   all has come, or the peer ends it                     kFree
//   kReading   all is read, or a read fails                          kFree
//   all        the connection ends                                   kFree
struct Incoming : Transfer {
    enum class State : uint8_t { kFree, kWaiting, kAsking, kRunning, kReading };

    // A read that is under way, as the cookie of its work request.
    struct Read {
        Incoming* owner = nullptr;
        uint64_t bytes = 0;  // 0: none
        const std::byte* from = nullptr;
    };

    State state = State::kFree;
    RingPool::Ring ring;  // slots is 0 if there is none
    uint32_t sender = 0;  // the peer asked: its number
    bool sender_pinned = false;
    uint32_t rkey = 0;   // of open memory, which is read without the peer; 0: it is not
    uint64_t asked = 0;  // bytes for which reads have been posted
    Read reads[2];
    std::unique_ptr<std::byte[]> owned;  // of a get whose bytes are handed over in the end
    Unpack unpack = nullptr;             // to this
    void* argument = nullptr;
    bool planned = false;
    Plan plan;
    std::optional<Receiver> core;
    uint64_t generation = 0;
    WirePart first;  // that is asked with
    Part part;       // that is to be told
    bool part_due = false;
    bool failed = false;  // the peer's memory, or this, is declared no more: the rest is dropped
    uint64_t taken = 0;   // bytes the memory has been filled, or skipped, up to
    uint32_t idle = 0;    // looks that found nothing
};

// The half of an interface's transfers that takes the bytes: gets, and what peers put.
class Receives {
  public:
    explicit Receives(TransferContext& context);
    ~Receives();
    Receives(const Receives&) = delete;
    Receives& operator=(const Receives&) = delete;

    bool has_room() const { return table_.has_room(); }
    // See Mover::get() and Mover::get_owned(). There must be room.
    void get(Channel& channel, const Buffers& to, uint64_t from, const WireKey& key, uint32_t rkey,
             bool pinned, void* cookie);
    void get_owned(Channel& channel, std::unique_ptr<std::byte[]> memory, size_t length,
                   uint64_t from, const WireKey& key, uint32_t rkey, Unpack unpack, void* argument,
                   void* cookie);

    bool quiet() const {
        return early_.empty() && running_.empty() && waiting_.empty() && failures_.empty();
    }
    // What waits for a connection or a ring begins, if it can.
    unsigned begin_waiting();
    // Takes what has come.
    unsigned advance();
    // As Mover::arm().
    Status arm(std::vector<Watched>& words);
    bool pending(const Channel& channel, uint64_t until) const;
    bool may_be_overtaken(const Channel& channel, uint64_t until) const;
    void request_reports() const;

    // Frames of peers. False if one makes no sense.
    bool deliver(Channel& channel, const std::byte* data, uint32_t length);
    bool finish(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    bool notified(Channel& channel, uint32_t immediate);
    // From the engine: a read is over; a channel is.
    void have_read(Incoming::Read& read, Status status);
    void ended(Channel& channel, Status status);

    uint64_t registered_bytes() const { return rings_.registered_bytes(); }

  private:
    static constexpr uint32_t kBlocksAtOnce = 16;  // taken of one transfer before the next's turn
    static constexpr uint64_t kLongestRead = 512 * 1024;  // bytes
    static constexpr uint32_t kPatience = 1 << 14;        // looks in vain for a ring
    static constexpr uint32_t kIdleAck = 256;  // looks in vain until what is owed is acknowledged

    // receives.cc
    Incoming* take();
    void receive(Incoming& transfer);
    Plan plan(Incoming& transfer);
    bool start(Incoming& transfer, bool may_lend);
    bool lend_ring(Incoming& transfer, bool may_lend);
    bool ask_sender(Incoming& transfer);
    unsigned begin_connected();
    unsigned do_without_rings();
    bool out_of_rings(Incoming& transfer);
    bool give_up(Incoming& transfer);
    void over(Incoming& transfer, Status status);

    // receives_take.cc
    unsigned step(Incoming& transfer);
    unsigned take_blocks(Incoming& transfer);
    unsigned pin_more(Incoming& transfer);
    Part pin_next(Incoming& transfer);
    Pin* pin(std::byte* at, uint64_t length);
    static Part direct_part(const Pin& pin, const std::byte* at, uint64_t length);
    bool acknowledge(Incoming& transfer);
    unsigned complete(Incoming& transfer);

    // receives_read.cc
    bool start_reading(Incoming& transfer, bool may_lend);
    unsigned read_more(Incoming& transfer);

    TransferContext& context_;
    RingPool rings_;
    uint64_t generation_;  // of the last ring lent: of the flags in it
    uint32_t waits_ = 0;   // looks in vain for a ring
    TransferTable<Incoming> table_;
    std::deque<Incoming*> early_;      // of users, whose channels are not up yet
    std::deque<Incoming*> waiting_;    // for a ring
    std::vector<Incoming*> running_;   // from asking on
    std::vector<Incoming*> failures_;  // to be told
};

}  // namespace tern
