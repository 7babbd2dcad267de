// SPDX-License-Identifier: BSD-3-Clause
// The sending half of a transfer.
#pragma once

#include <memory>
#include <optional>

#include "tern/connection/cookie.h"
#include "tern/rendezvous/chunk_source.h"
#include "tern/rendezvous/decision.h"
#include "tern/rendezvous/ring_pool.h"
#include "tern/rendezvous/transfer.h"

namespace tern {

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
    std::unique_ptr<std::byte[]> owned;  // memory of put_owned()
    std::optional<ChunkSource> core;
    RingPool::Ring staging;  // slots is 0: none
    EarlyChunk early;        // in `staging`
    WireRing to;
    bool source_decided = false;
    bool of_device = false;   // if `source_decided`: the processor may not touch the memory
    Decision source;          // placed: sent in place; staged: copied
    double copy_bytes = 0;    // length of the next placed write from staging memory
    uint64_t pin_end = 0;     // end of what `pin` covers, in the message
    uint64_t ahead_end = 0;   // the same for `ahead`
    Write halves[2];          // from the halves of staging memory
    Write gather;             // from the user's memory
    Write reclaim;            // no write, but a flush of all that is under way
    uint64_t reclaim_at = 0;  // ChunkSource::staged() when the flush began
};

}  // namespace tern
