// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/pinning/regions/regions.h"
#include "tern/rendezvous/schedule.h"
#include "tern/veloblock/frame.h"

namespace tern {

// The control frames of transfers, little endian like everything on the wire. In each transfer one
// side is the sender of the bytes and the other the receiver; either side may have asked for the
// transfer. The receiver's number identifies the transfer, or the sender's until the receiver's is
// known.
enum class TransferId : uint32_t {
    kFetch = 8,    // receiver to sender: send this memory of yours; a Fetch
    kDeliver = 9,  // sender to receiver: asks to write to this memory of yours; a Deliver
    kAccept = 10,  // receiver to sender: the answer to a Deliver; an Accept
    kPart = 11,    // receiver to sender: how the next part is to be sent; a MorePart
    kAck = 12,     // receiver to sender: sub-blocks copied out of the ring; an Ack
    kFinish = 13,  // sender to receiver: all has been written, including placed parts; a Finish
    kRefuse = 14,  // either: refuses a transfer, or the rest of one; a Refuse
};

using WireKey = RegionKey;

struct WirePart {
    static constexpr uint32_t kPlaced = 1;
    // In Fetch and Accept: the first part is placed and being pinned; a MorePart with its memory
    // follows.
    static constexpr uint32_t kAnnounced = 2;

    uint64_t upto = 0;
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t flags = 0;

    static WirePart of(const Part& part) {
        return {part.upto, part.address, part.rkey, part.placed ? kPlaced : 0};
    }
    static WirePart announce(uint64_t upto) { return {upto, 0, 0, kPlaced | kAnnounced}; }
    Part part() const { return {upto, address, rkey, (flags & kPlaced) != 0}; }
    bool announced() const { return flags == (kPlaced | kAnnounced); }
    bool valid() const { return (flags & ~kPlaced) == 0 || announced(); }
};

// The ring into which staged parts are written; no slots if nothing is staged.
struct WireRing {
    static constexpr uint32_t kNotify = 1;  // writes carry immediate data
    static constexpr uint32_t kMostSlots = 4096;
    static constexpr uint64_t kGeneration = (uint64_t{1} << 40) - 1;

    uint64_t address = 0;
    uint32_t rkey = 0;
    uint16_t slots = 0;
    uint16_t flags = 0;
    uint64_t generation = 0;  // of the flags after the sub-blocks; 40 bits

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

// An active message that the receiver of a fetch sends with its end. Only to peers whose key says
// that they understand it.
struct Reply {
    static constexpr uint32_t kMost = 32;  // bytes
    static constexpr uint32_t kIds = 32;

    uint8_t id = 0;
    uint8_t length = 0;
    std::byte bytes[kMost]{};
};

struct Ack {
    static constexpr uint32_t kEnd = 1;     // the transfer is over
    static constexpr uint32_t kFailed = 2;  // with kEnd: not all bytes are in the receiver's memory
    static constexpr uint32_t kReply = 4;   // with kEnd: the bytes of a Reply follow

    uint32_t receiver = 0;
    uint32_t count = 0;  // sub-blocks taken since the transfer began, modulo 2^32
    uint32_t flags = 0;
    uint32_t reply = 0;  // with kReply: the id of the active message

    // `length`: of the frame's payload.
    bool valid(uint32_t length) const {
        if ((flags & kReply) == 0) return (flags & ~(kEnd | kFailed)) == 0 && length == sizeof(Ack);
        return flags == (kEnd | kReply) && reply < Reply::kIds &&
               length <= sizeof(Ack) + Reply::kMost;
    }
};

struct ReplyingAck {
    Ack ack;
    std::byte reply[Reply::kMost]{};  // only as many bytes as the reply has are sent
};

struct Finish {
    uint32_t receiver = 0;
    uint32_t reserved = 0;
};

struct Refuse {
    static constexpr uint32_t kFetch = 0;  // the refused frame
    static constexpr uint32_t kDeliver = 1;
    static constexpr uint32_t kRest = 2;  // the rest of a fetch; the receiver confirms with an Ack

    uint32_t what = 0;
    uint32_t number = 0;  // of the transfer, as in the refused frame
    // Written to the ring before, modulo 2^32. The frame may overtake what notifies of them.
    uint32_t blocks = 0;
    uint32_t reserved = 0;
};

static_assert(sizeof(WireKey) == 8 && sizeof(WirePart) == 24 && sizeof(WireRing) == 24);
static_assert(sizeof(Fetch) == 80 && sizeof(Fetch) <= kMaxControl);
static_assert(sizeof(Deliver) == 32 && sizeof(Accept) == 56 && sizeof(MorePart) == 32);
static_assert(sizeof(ReplyingAck) == 48 && sizeof(ReplyingAck) <= kMaxControl);
static_assert(sizeof(Ack) == 16 && sizeof(Finish) == 8 && sizeof(Refuse) == 16);

}  // namespace tern
