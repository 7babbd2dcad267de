// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "connection/cookie.h"
#include "rendezvous/ring_reader.h"
#include "rendezvous/ring_pool.h"
#include "rendezvous/transfer_memory.h"

namespace tern {

// Called with the bytes of a get when all have come.
using Unpack = void (*)(void* argument, const void* data, size_t length);

// What a get knows of the side that has the bytes.
struct Source {
    bool pinned = false;            // as far as is known, the memory is
    bool takes_waited_ack = false;  // takes Ack::kWaited
    bool readable = false;          // the rkey is one of the message, not of open memory
    bool late = false;              // with `readable`: because this side would have to wait
};

// The receiving half of a transfer. States, events, next states:
//
//   kFree      this side's user gets, or the peer offers             kWaiting
//   kWaiting   a ring or pins are there, and the way is decided      kAsking
//              the peer's memory is open, and reads are posted       kReading
//              the transfer cannot begin                             kFree
//   kAsking    the fetch or the accept has been sent                 kRunning
//   kRunning   all bytes have come, or the peer ends the transfer    kFree
//   kReading   all bytes are read                                    kFree
//   all        the connection ends                                   kFree
struct Incoming : Transfer {
    enum class State : uint8_t { kFree, kWaiting, kAsking, kRunning, kReading };

    // A read that is under way, or whose bytes are in a ring. The cookie of its work request points
    // here.
    struct Read {
        Incoming* owner = nullptr;
        uint64_t bytes = 0;               // 0: free
        uint64_t offset = 0;              // in the message
        const std::byte* from = nullptr;  // in the ring; null: read to its final place
        bool arrived = false;
    };

    State state = State::kFree;
    RingPool::Ring ring;  // slots is 0: none
    uint32_t sender = 0;  // the peer's number, if the peer asked
    Source source;
    uint32_t rkey = 0;   // of open memory, which is read without the peer; 0: not open
    uint64_t asked = 0;  // bytes for which reads have been posted
    Read reads[2];
    std::unique_ptr<std::byte[]> owned;  // memory of get_owned()
    Unpack unpack = nullptr;             // gets `owned`
    void* argument = nullptr;
    std::optional<Reply> reply;  // to be sent with the end
    bool decided = false;
    Decision decision;
    std::chrono::steady_clock::time_point asked_at;
    bool alone = false;   // when it began, no other transfer was under way
    uint64_t pinned = 0;  // bytes from the beginning on that are pinned, by `pin` or by `pins`
    std::vector<uint64_t> ends;  // of the elements of `pins`, in the message
    size_t told = 0;             // elements of `pins` of which the sender knows
    std::optional<Receiver> core;
    uint64_t generation = 0;
    WirePart first;  // in the fetch or accept
    Part part;       // to be told to the sender
    bool part_due = false;
    bool failed = false;  // memory of one side was undeclared: the rest is dropped
    uint64_t taken = 0;   // bytes copied or skipped
    uint32_t idle = 0;    // consecutive steps that took nothing
    // How long this side has looked in vain, and when it did so last.
    std::chrono::nanoseconds waited{0};
    std::chrono::steady_clock::time_point looked_at;
};

// For the log.
void trace_decision(const Incoming& transfer, Scheme scheme, Reason reason);

// The receiving half of an interface's transfers: gets, and what peers put.
class Receives {
  public:
    explicit Receives(TransferContext& context);
    ~Receives();
    Receives(const Receives&) = delete;
    Receives& operator=(const Receives&) = delete;

    bool has_room() const { return table_.has_room(); }
    // See Rendezvous::get() and Rendezvous::get_owned(). There must be room.
    void get(Channel& channel, const Buffers& to, uint64_t from, const WireKey& key, uint32_t rkey,
             Source source, void* cookie, const Reply* reply);
    void get_owned(Channel& channel, std::unique_ptr<std::byte[]> memory, size_t length,
                   uint64_t from, const WireKey& key, uint32_t rkey, Unpack unpack, void* argument,
                   void* cookie);

    bool quiet() const {
        return unconnected_.empty() && running_.empty() && waiting_.empty() && later_.empty() &&
               failures_.empty();
    }
    // Begins transfers that wait for a connection, a ring or a turn, if they can begin.
    unsigned begin_waiting();
    // Moves on the transfers that have begun.
    unsigned advance();
    // As Rendezvous::arm().
    Status arm(std::vector<Watched>& words);
    bool pending(const Channel& channel, uint64_t until) const;
    bool may_be_overtaken(const Channel& channel, uint64_t until) const;
    void request_reports() const;

    // Frames of peers. False: the frame is invalid.
    bool deliver(Channel& channel, const std::byte* data, uint32_t length);
    bool finish(Channel& channel, const std::byte* data, uint32_t length);
    bool refused(Channel& channel, const Refuse& frame);
    bool notified(Channel& channel, uint32_t immediate);
    // From the engine: a read or a channel is over.
    void have_read(Incoming::Read& read, Status status);
    void ended(Channel& channel, Status status);

    // See Rendezvous::reads().
    bool reads(std::span<const Buffers::Piece> to, const Source& source) const;

    uint64_t registered_bytes() const { return rings_.registered_bytes(); }

  private:
    static constexpr uint32_t kBlocksAtOnce = 16;  // in one turn of a transfer
    static constexpr uint32_t kPartsAtOnce = 16;
    static constexpr uint64_t kLongestRead = 512 * 1024;  // bytes
    static constexpr uint32_t kPatience = 1 << 14;        // calls of progress without a free ring
    static constexpr uint32_t kIdleAck = 256;  // idle steps before an owed acknowledgement
    static constexpr uint32_t kIdleLook = 32;  // idle steps between two looks at the clock
    // A side that looks more seldom than this does something else meanwhile.
    static constexpr std::chrono::microseconds kLooks{100};
    // Waiting no longer than this, in seconds, beyond what is expected says nothing of the sender.
    static constexpr double kWaitedLong = 50e-6;

    // receives.cc
    Incoming* take();
    void begin_get(Incoming& transfer, uint64_t from, const WireKey& key, uint32_t rkey);
    void receive(Incoming& transfer);
    Decision decide_scheme(Incoming& transfer);
    enum class Start : uint8_t { kBegun, kNoRing, kLater };  // kLater: the turn is over
    Start start(Incoming& transfer, bool may_lend);
    void wait(Incoming& transfer, Start why);
    unsigned begin_later();
    Start pin_all(Incoming& transfer);
    bool lend_ring(Incoming& transfer, bool may_lend);
    Start without_ring(Incoming& transfer, bool may_lend);
    bool ask_sender(Incoming& transfer);
    unsigned do_without_rings();
    Start out_of_rings(Incoming& transfer);
    Start give_up(Incoming& transfer);
    void over(Incoming& transfer, Status status);
    bool was_alone(const Incoming& transfer) const;
    void learn(const Incoming& transfer);

    // receives_take.cc
    unsigned step(Incoming& transfer);
    unsigned take_blocks(Incoming& transfer);
    unsigned pin_more(Incoming& transfer);
    Part pin_next(Incoming& transfer);
    uint64_t next_piece(const Incoming& transfer) const;
    bool may_pin(const Incoming& transfer);
    bool find_piece(Incoming& transfer);
    bool pin_piece(Incoming& transfer, unsigned access);
    void take_piece(Incoming& transfer, uint64_t piece, Pin* pin);
    Part direct_part(Incoming& transfer);
    bool acknowledge(Incoming& transfer);
    unsigned complete(Incoming& transfer);
    void look_in_vain(Incoming& transfer);
    bool kept_waiting(const Incoming& transfer) const;

    // receives_read.cc
    Start start_reading(Incoming& transfer, bool may_lend);
    unsigned step_reading(Incoming& transfer);
    unsigned take_reads(Incoming& transfer);
    unsigned post_reads(Incoming& transfer);
    bool find_room(Incoming& transfer, Incoming::Read& read, ibv_sge& piece);

    TransferContext& context_;
    RingPool rings_;
    uint64_t generation_;  // of the flags in the ring lent last
    uint32_t waits_ = 0;   // calls of progress without a free ring
    TransferTable<Incoming> table_;
    std::deque<Incoming*> unconnected_;  // of users whose channels are not up yet
    std::deque<Incoming*> waiting_;      // for a ring
    std::deque<Incoming*> later_;        // for a turn: to be pinned before they begin
    std::vector<Incoming*> running_;     // kAsking, kRunning, kReading
    std::vector<Incoming*> failures_;    // to be ended with an error
    size_t next_ = 0;                    // in running_: comes first if the last turn was too short
};

}  // namespace tern
