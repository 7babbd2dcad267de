// SPDX-License-Identifier: BSD-3-Clause
// What is known of a transfer, its states, and the table of all.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/make_room.h"
#include "tern/connection/cookie.h"
#include "tern/engine/channel.h"
#include "tern/engine/engine.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/pinning/regions/regions.h"
#include "tern/rendezvous/chunk_source.h"
#include "tern/rendezvous/decision.h"
#include "tern/rendezvous/messages.h"
#include "tern/rendezvous/ring_pool.h"
#include "tern/rendezvous/ring_reader.h"
#include "tern/rendezvous/turns.h"

namespace tern {

// The pieces of the user's memory that are pinned, from the beginning on; see PiecewisePins.
struct Pinned {
    uint64_t bytes = 0;  // up to here, in the message
    std::vector<Pin*> pins;
    std::vector<uint64_t> ends;  // of the pieces, in the message
    size_t used = 0;  // the piece that is sent, or the first whose part was not given to the sender
};

// The fields that both halves of a transfer have.
struct Transfer {
    uint32_t number = 0;  // see TransferTable
    Channel* channel = nullptr;
    uint64_t length = 0;
    Buffers memory;
    RegionUse* use = nullptr;  // of declared memory, if the peer asked
    bool asked_here = false;   // this side's user asked
    bool dropped = false;      // the memory is not accessed any more, and the user has been told
    bool sends = false;        // this side sends the bytes: an Outgoing
    bool posted = false;       // all is in the send queue, which keeps its order
    uint64_t sequence = 0;     // TransferAccounts::begun() at its beginning
    Waiter waiter;             // of the user, to be completed
    uint64_t address = 0;      // of the peer's memory, if this side asked
    WireKey key;
    bool decided = false;
    Decision decision;   // of a read: whether to the user's memory (kPlaced) or to a ring
    Pin* pin = nullptr;  // of all of `memory`
    Pinned pinned;       // or of its pieces
    Turn turn;
    Transfer* earlier = nullptr;  // among Channel::operations
    Transfer* later = nullptr;

    bool awaited() const { return asked_here && !dropped; }
};

// What the rendezvous knows of a channel.
struct ChannelTransfers {
    // The operations of this side's users, oldest first.
    Transfer* first;
    Transfer* last;
    uint32_t rings;      // lent to transfers from the peer
    uint32_t served[2];  // transfers that the peer has asked for: incoming, outgoing
    // The number of this side's operations that have failed while the connection has not, and the
    // status of the last one.
    uint32_t failures;
    Status failure;
    // Whether the peer could read the message that was announced to it last, and whether the peer
    // asks for readable messages nevertheless, because its buffers are new.
    bool readable;
    bool fetches;
};
static_assert(Status{} == Status::kOk);

inline ChannelTransfers& transfers_on(Channel& channel) {
    return channel.transfers_state.as<ChannelTransfers>();
}
inline const ChannelTransfers& transfers_on(const Channel& channel) {
    return channel.transfers_state.as<ChannelTransfers>();
}

// Sends a frame about a transfer. False: it cannot be sent now.
inline bool send_frame(Engine& engine, Channel& channel, TransferId id, const void* frame,
                       uint32_t length, bool of_user = false) {
    return channel.carries() &&
           engine.send_control(channel, static_cast<ControlId>(id), frame, length, of_user);
}
template <class Frame>
bool send_frame(Engine& engine, Channel& channel, TransferId id, const Frame& frame) {
    return send_frame(engine, channel, id, &frame, sizeof(frame));
}

// While a RegionAccess exists and is true, the memory may be accessed. False: it has been
// undeclared, or the transfer dropped.
class RegionAccess {
  public:
    explicit RegionAccess(const Transfer& transfer)
        : use_(transfer.use), may_(!transfer.dropped && (use_ == nullptr || use_->enter())) {}
    ~RegionAccess() {
        if (use_ != nullptr && may_) use_->leave();
    }
    RegionAccess(const RegionAccess&) = delete;
    RegionAccess& operator=(const RegionAccess&) = delete;

    explicit operator bool() const { return may_; }

  private:
    RegionUse* use_;
    bool may_;
};

// Called with the bytes of a get when all have come.
using Unpack = void (*)(void* argument, const void* data, size_t length);

// What the key says of the side that has the bytes, and of its memory.
struct Source {
    bool pinned = false;  // as far as is known, the memory is
    // Why the key has an rkey to read with: the memory is open, or is used again (kReused).
    Reason readable = Reason::kOpenMemory;
};

// States, events, next states:
//
//   kFree      this side's user gets, or the peer offers             kWaiting
//   kWaiting   a ring or pins are there, and the scheme is chosen    kAsking
//              the peer's memory is readable, and reads are posted   kReading
//              the transfer cannot begin                             kFree
//   kAsking    the fetch or the accept has been sent                 kRunning
//   kRunning   all bytes have come, or the peer refuses              kFree
//   kReading   all bytes are read, or no ring can be registered      kFree
//   all but kRunning
//              the transfer is dropped                               kFree
//   all        the connection ends                                   kFree
struct Incoming : Transfer {
    static constexpr bool kSends = false;
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

    // Memory of get_owned(), and what gets its bytes.
    struct Owned {
        std::unique_ptr<std::byte[]> memory;
        Unpack unpack = nullptr;
        void* argument = nullptr;
    };
    // What this side's device reads; see Reads.
    struct Reading {
        uint32_t rkey = 0;   // of memory that is read without the peer; 0: the peer writes
        uint64_t asked = 0;  // bytes for which reads have been posted
        Read reads[2];
    };
    // The parts that the sender is given; see IncomingWrites.
    struct Parts {
        WirePart first;    // in the fetch or accept
        Part next;         // to be sent to the sender
        bool due = false;  // `next` has not been sent
    };

    // Only along the table above. For the log, too.
    void move_to(State next);
    // Why the transfer comes as it does, for the log.
    void trace_decision(Scheme scheme, Reason reason) const;
    void set_decision(const Decision& made) {
        decision = made;
        trace_decision(made.scheme, made.reason);
    }
    // Placed, and both sides pin their first piece at the same time. The ring is for what follows,
    // if it cannot be pinned.
    bool in_pieces() const { return !decision.staged() && ring.slots != 0; }
    // Only a piece of the user's memory can be pinned.
    bool in_one_piece() const { return memory.contiguous() && !owned.memory; }
    // Whether a device may write to the user's memory: this side's reads to it, or the peer has
    // been told where it is pinned.
    bool exposed() const {
        if (state != State::kReading)
            return state == State::kRunning &&
                   (!decision.staged() || pin != nullptr || !pinned.pins.empty());
        return std::any_of(std::begin(reading.reads), std::end(reading.reads),
                           [](const Read& read) { return read.bytes != 0 && !read.arrived; });
    }

    State state = State::kFree;
    RingPool::Ring ring;          // slots is 0: none
    bool waits_for_ring = false;  // is in the RingQueue
    uint32_t sender = 0;          // the peer's number, if the peer asked
    Source source;
    Owned owned;
    std::optional<Reply> reply;  // to be sent with the end
    Reading reading;
    std::optional<RingReader> core;
    uint64_t generation = 0;  // of the flags in the ring
    Parts parts;
    bool failed = false;   // memory of one side was undeclared: the rest is dropped
    bool refused = false;  // by the sender, which waits for no confirmation
    uint64_t taken = 0;    // bytes copied or skipped
    uint32_t idle = 0;     // consecutive steps that took nothing; see IncomingWrites
};

// States, events, next states:
//
//   kFree        this side's user puts                               kOffering
//                the peer's fetch has come                           kWriting
//   kOffering    the deliver has been sent                           kOffered
//                the peer's memory is open, so it takes no part      kWriting
//   kOffered     the peer's accept has come                          kWriting
//                the peer refuses                                    kFree
//   kWriting     staging memory is needed, and all is lent           kWaiting
//                all is posted, and the finish has been sent         kFinished
//                the memory was undeclared, or the transfer dropped,
//                and the refusal of the rest has been sent           kWithdrawn
//                all writes to open memory have completed            kFree
//   kWaiting     staging memory is lent, or not needed any more      kWriting
//   kOffering, and if the peer takes no part
//                the transfer is dropped                             kFree
//   kWriting, kFinished, kWithdrawn
//                the peer ends the transfer, no write is under way   kFree
//                the same, and writes are under way                  kEnded
//   kEnded       the last write is complete                          kFree
//   all          the connection ends                                 kFree
struct Outgoing : Transfer {
    static constexpr bool kSends = true;
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

    // Placed writes under way from the same memory. The cookies of their work requests point here.
    struct Write {
        Outgoing* owner = nullptr;
        uint32_t under_way = 0;
    };

    // Only along the table above. For the log, too.
    void move_to(State next);
    // The peer takes no part, because its memory is open to writes.
    bool alone() const { return rkey != 0; }
    uint32_t under_way() const { return gather.under_way + halves_under_way() + reclaim.under_way; }
    uint32_t halves_under_way() const { return halves[0].under_way + halves[1].under_way; }

    State state = State::kFree;
    uint32_t rkey = 0;                   // of memory that is open to writes; 0: not open
    Status status = Status::kOk;         // at the end
    uint32_t receiver = 0;               // the peer's number
    Outgoing* next_of_bucket = nullptr;  // of ByReceiver
    std::unique_ptr<std::byte[]> owned;  // memory of put_owned()
    std::optional<ChunkSource> core;
    RingPool::Ring staging;  // slots is 0: none
    EarlyChunk early;        // in `staging`
    WireRing to;
    bool of_device = false;   // if `decided`: the processor may not touch the memory
    double copy_bytes = 0;    // length of the next placed write from staging memory
    Write halves[2];          // from the halves of staging memory
    Write gather;             // from the user's memory
    Write reclaim;            // no write, but a flush of all that is under way
    uint64_t reclaim_at = 0;  // ChunkSource::staged() when the flush began
};

}  // namespace tern
