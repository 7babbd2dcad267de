// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/channel.h"
#include "pinning/cache/pin_cache.h"
#include "pinning/regions/regions.h"
#include "rendezvous/buffers.h"
#include "rendezvous/messages.h"
#include "rendezvous/policy.h"
#include "rendezvous/receiver.h"
#include "rendezvous/ring_pool.h"
#include "rendezvous/sender.h"

namespace tern {

// What the two halves of a transfer have in common.
struct Transfer {
    uint32_t number = 0;  // index, and how often it was used
    Channel* channel = nullptr;
    uint64_t length = 0;
    Buffers memory;
    RegionUse* use = nullptr;  // the peer asked: of the declared memory
    bool users = false;        // this side's user asked
    uint64_t sequence = 0;     // in what order
    void* cookie = nullptr;    // the user's, to be told
    uint64_t address = 0;      // this side asked: the peer's memory
    WireKey key;
    Pin* pin = nullptr;      // of what is being transferred in place
    Pin* ahead = nullptr;    // of what is behind that
    std::vector<Pin*> pins;  // of what was before
};

// While it lives, and is true, a transfer's memory may be touched. False: it is declared no more.
class Touch {
  public:
    explicit Touch(const Transfer& transfer)
        : use_(transfer.use), may_(use_ == nullptr || use_->enter()) {}
    ~Touch() {
        if (use_ != nullptr && may_) use_->leave();
    }
    Touch(const Touch&) = delete;
    Touch& operator=(const Touch&) = delete;

    explicit operator bool() const { return may_; }

  private:
    RegionUse* use_;
    bool may_;
};

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

// The half that has them.
//
//   kFree       this side's user puts                                kOffering
//               the peer's fetch has come                            kRunning
//   kOffering   the deliver has been sent                            kOffered
//               the peer's memory is open: it takes no part          kRunning
//   kOffered    the peer's accept has come                           kRunning
//               the peer refuses                                     kFree
//   kRunning    the peer acknowledges all, or ends it; or what was
//               written to open memory has arrived                   kFree
//   all         the connection ends                                  kFree
struct Outgoing : Transfer {
    enum class State : uint8_t { kFree, kOffering, kOffered, kRunning };

    // Direct writes that are under way from the same memory, as the cookie of their work requests.
    struct Write {
        Outgoing* owner = nullptr;
        uint32_t under_way = 0;
    };

    uint32_t under_way() const {
        return gather.under_way + halves[0].under_way + halves[1].under_way + reclaim.under_way;
    }

    State state = State::kFree;
    uint32_t rkey = 0;                   // of memory that is open to writes; 0: it is not
    bool alone = false;                  // the peer takes no part: its memory is open to writes
    bool waiting = false;                // for staging memory
    bool told = false;                   // the receiver, that all is written
    bool withdrawn = false;              // the receiver, that no more comes
    bool ended = false;                  // the receiver has told that
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

}  // namespace tern
