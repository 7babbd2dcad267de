// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "rendezvous/part.h"
#include "veloblock/frame.h"

namespace tern {

// The control frames of transfers, little endian as everything on the wire. In each transfer one
// side is the sender of the bytes, the other the receiver; either may have asked for it. A transfer
// is named by a number of the receiver's, and until that is known by one of the sender's.
enum class TransferId : uint32_t {
    kFetch = 8,    // receiver to sender: send me this memory of yours; a Fetch
    kDeliver = 9,  // sender to receiver: I have something for this memory of yours; a Deliver
    kAccept = 10,  // receiver to sender: the answer to that; an Accept
    kPart = 11,    // receiver to sender: how the next part is to come; a MorePart
    kAck = 12,     // receiver to sender: sub-blocks taken; an Ack
    kFinish = 13,  // sender to receiver: all is written, direct parts too; a Finish
    kRefuse = 14,  // either: no, or no more; a Refuse
};

// A declared region, as a key names it.
struct WireKey {
    uint32_t index = 0;
    uint32_t generation = 0;
};

struct WirePart {
    static constexpr uint32_t kDirect = 1;
    // Of fetch and accept, a direct part: its memory is being pinned; it follows in a MorePart.
    static constexpr uint32_t kAnnounced = 2;

    uint64_t upto = 0;
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t flags = 0;

    static WirePart of(const Part& part) {
        return {part.upto, part.address, part.rkey, part.direct ? kDirect : 0};
    }
    static WirePart announce(uint64_t upto) { return {upto, 0, 0, kDirect | kAnnounced}; }
    Part part() const { return {upto, address, rkey, (flags & kDirect) != 0}; }
    bool announced() const { return flags == (kDirect | kAnnounced); }
    bool valid() const { return (flags & ~kDirect) == 0 || announced(); }
};

// Where staged parts are written to: a ring of slots; none if nothing is staged.
struct WireRing {
    static constexpr uint32_t kNotify = 1;  // write with immediate data
    static constexpr uint32_t kMostSlots = 4096;
    static constexpr uint64_t kGeneration = (uint64_t{1} << 40) - 1;

    uint64_t address = 0;
    uint32_t rkey = 0;
    uint16_t slots = 0;
    uint16_t flags = 0;
    uint64_t generation = 0;  // of the flags behind the sub-blocks; 40 bits

    bool valid() const {
        return slots <= kMostSlots && (flags & ~kNotify) == 0 && generation <= kGeneration;
    }
};

struct Fetch {
    uint32_t receiver = 0;
    uint32_t reserved = 0;
    uint64_t address = 0;
    uint64_t length = 0;
    WireKey key;
    WireRing ring;
    WirePart part;
};

struct Deliver {
    uint32_t sender = 0;
    uint32_t reserved = 0;
    uint64_t address = 0;
    uint64_t length = 0;
    WireKey key;
};

struct Accept {
    uint32_t sender = 0;
    uint32_t receiver = 0;
    WireRing ring;
    WirePart part;
};

struct MorePart {
    uint32_t receiver = 0;
    uint32_t reserved = 0;
    WirePart part;
};

struct Ack {
    static constexpr uint32_t kEnd = 1;     // all has been taken, and the transfer is over
    static constexpr uint32_t kFailed = 2;  // and not all of it is where it belongs

    uint32_t receiver = 0;
    uint32_t count = 0;  // sub-blocks taken since the transfer began, modulo 2^32
    uint32_t flags = 0;
    uint32_t reserved = 0;
};

struct Finish {
    uint32_t receiver = 0;
    uint32_t reserved = 0;
};

struct Refuse {
    static constexpr uint32_t kFetch = 0;  // what is refused
    static constexpr uint32_t kDeliver = 1;
    static constexpr uint32_t kRest = 2;  // of what was fetched; an Ack confirms that

    uint32_t what = 0;
    uint32_t number = 0;  // as in the refused frame
};

static_assert(sizeof(WirePart) == 24 && sizeof(WireRing) == 24);
static_assert(sizeof(Fetch) == 80 && sizeof(Fetch) <= kMaxControl);
static_assert(sizeof(Deliver) == 32 && sizeof(Accept) == 56 && sizeof(MorePart) == 32);
static_assert(sizeof(Ack) == 16 && sizeof(Finish) == 8 && sizeof(Refuse) == 8);

}  // namespace tern
