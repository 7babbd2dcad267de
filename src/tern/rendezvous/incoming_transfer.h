// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of a transfer.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "tern/connection/cookie.h"
#include "tern/rendezvous/decision.h"
#include "tern/rendezvous/ring_pool.h"
#include "tern/rendezvous/ring_reader.h"
#include "tern/rendezvous/transfer.h"

namespace tern {

// Called with the bytes of a get when all have come.
using Unpack = void (*)(void* argument, const void* data, size_t length);

// What the key says of the side that has the bytes, and of its memory.
struct Source {
    bool pinned = false;            // as far as is known, the memory is
    bool takes_waited_ack = false;  // takes Ack::kWaited
    // Why the key has an rkey to read with: the memory is open, or the message is used again
    // (kReused), or this side would have to wait (kSenderIsLate).
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

    // Memory of get_owned(), and what gets its bytes.
    struct Owned {
        std::unique_ptr<std::byte[]> memory;
        Unpack unpack = nullptr;
        void* argument = nullptr;
    };
    // What this side's device reads; see IncomingReads.
    struct Reading {
        uint32_t rkey = 0;   // of memory that is read without the peer; 0: the peer writes
        uint64_t asked = 0;  // bytes for which reads have been posted
        Read reads[2];
    };
    // How the transfer began, to compare its time with the expected one.
    struct Start {
        std::chrono::steady_clock::time_point asked_at;
        bool alone = false;  // no other transfer was under way
    };
    // What is pinned of the user's memory, by `pin` or by `pins`; see IncomingPins.
    struct Pinned {
        uint64_t bytes = 0;          // from the beginning on
        std::vector<uint64_t> ends;  // of the elements of `pins`, in the message
        size_t announced = 0;        // elements of `pins` whose part was given to the sender
    };
    // The parts that the sender is given; see IncomingWrites.
    struct Parts {
        WirePart first;    // in the fetch or accept
        Part next;         // to be sent to the sender
        bool due = false;  // `next` has not been sent
    };
    // How long this side has polled for nothing; see IncomingWrites.
    struct Idle {
        uint32_t steps = 0;  // consecutive steps that took nothing
        std::chrono::nanoseconds waited{0};
        std::chrono::steady_clock::time_point polled_at;  // when `waited` was measured last
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

    State state = State::kFree;
    RingPool::Ring ring;          // slots is 0: none
    bool waits_for_ring = false;  // is in the RingQueue
    uint32_t sender = 0;          // the peer's number, if the peer asked
    Source source;
    Owned owned;
    std::optional<Reply> reply;  // to be sent with the end
    bool decided = false;
    Decision decision;  // of a read: whether to the user's memory (kPlaced) or to a ring
    Start start;
    Pinned pinned;
    Reading reading;
    std::optional<RingReader> core;
    uint64_t generation = 0;  // of the flags in the ring
    Parts parts;
    bool failed = false;   // memory of one side was undeclared: the rest is dropped
    bool refused = false;  // by the sender, which waits for no confirmation
    uint64_t taken = 0;    // bytes copied or skipped
    Idle idle;
};

}  // namespace tern
