// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/connection/little_endian.h"
#include "tern/engine/engine.h"
#include "tern/veloblock/frame.h"

namespace tern {

// The control frames that bind tuples to queues and make XRC links, little endian as everything on
// the wire. R is the receiver of the tuple's messages, P their sender.
enum class TupleControlId : uint32_t {
    kBind = 24,       // R to P: a WireBind
    kBound = 25,      // P to R: the answer, a WireBound
    kClose = 26,      // R to P: a WireClose
    kClosed = 27,     // P to R: the answer, a WireClosed
    kConnect = 28,    // P to R: a WireConnect
    kConnected = 29,  // R to P: the answer, a WireConnected
};

// Messages of exactly this tag may be sent to this queue, when granted.
struct WireBind {
    uint64_t tag = 0;
    uint64_t mask = 0;   // bits of the tag that form the key; the same for all of R's tuples
    uint64_t node = 0;   // XRC domain of the queue
    uint32_t queue = 0;  // number of the XRC shared receive queue
    uint16_t tuple = 0;  // R's number of the tuple
    uint16_t depth = 0;  // most grants at a time, a power of two
    uint32_t nonce = 0;  // random; in the immediate data of each message (to_immediate())
    uint32_t reserved = 0;
};

// From here on P numbers the messages with the key.
struct WireBound {
    static constexpr uint16_t kRefused = 0xffff;

    uint16_t tuple = 0;
    uint16_t sender = kRefused;  // P's number of the tuple
    uint32_t slot = 0;           // index of the tuple's first word
    uint64_t address = 0;        // of P's words for grants, the same for all tuples
    uint32_t rkey = 0;
    uint32_t reserved = 0;
};

// P must stop using the grants written so far.
struct WireClose {
    static constexpr uint16_t kUnbind = 1;  // P forgets the tuple, too

    uint16_t sender = 0;
    uint16_t flags = 0;
    uint32_t reserved = 0;
};

// P's later messages use none of these grants, and have no number if the tuple is forgotten.
struct WireClosed {
    uint16_t tuple = 0;
    uint16_t sequence = 0;  // of the last message sent, on either path
    uint16_t flags = 0;     // as in the WireClose
    uint16_t reserved = 0;
};

// P asks R for the other end of a link, in the XRC domain of R's node.
struct WireConnect {
    uint32_t number = 0;  // P's number of the attempt
    uint32_t qp_num = 0;
    uint32_t psn = 0;  // of its first packet
    uint32_t mtu = 0;  // an ibv_mtu, as in the handshake
};

struct WireConnected {
    static constexpr uint32_t kPagesOnDemand = 1;  // R's device may have to fault pages in

    uint32_t number = 0;
    uint32_t qp_num = 0;  // 0: refused
    uint32_t mtu = 0;
    uint32_t flags = 0;
};

static_assert(sizeof(WireBind) == 40 && sizeof(WireBound) == 24 && sizeof(WireClose) == 8);
static_assert(sizeof(WireClosed) == 8 && sizeof(WireConnect) == 16);
static_assert(sizeof(WireConnected) == 16 && sizeof(WireBind) <= kMaxControl);

// Immediate data of what arrives in a queue: the message's number, or kDrainName, in the low 17
// bits, and the nonce of the bind, combined by exclusive or. The device may give the number of a
// destroyed queue to a new one, of any process. A message that was posted for the destroyed queue
// then arrives in the new one, and must not pass for a message of the new tuple, whose numbers are
// the same. With a random nonce it does so once in 2^32 times.
inline constexpr uint32_t kDrainName = 0x10000;

constexpr uint32_t to_immediate(uint32_t nonce, uint32_t name) {
    return nonce ^ name;
}
constexpr uint32_t from_immediate(uint32_t nonce, uint32_t immediate) {
    return nonce ^ immediate;
}

// Sends a control frame. False: there is no room now, or the channel is not up.
template <class Frame>
bool send_frame(Engine& engine, Channel& channel, TupleControlId id, const Frame& frame) {
    return channel.up() &&
           engine.send_control(channel, static_cast<ControlId>(id), &frame, sizeof(frame));
}

// Whether a peer's frame has values that the protocol allows at any time. The receiver of the frame
// checks it against the state of the tuple or link.
bool is_valid(const WireBind& frame);
bool is_valid(const WireBound& frame);
bool is_valid(const WireClose& frame);
bool is_valid(const WireClosed& frame);
bool is_valid(const WireConnect& frame);
bool is_valid(const WireConnected& frame);

// Takes the frame in the payload of a control frame. False if it is malformed, or `handle` says so.
template <class Frame, class Handle>
bool take_frame(const std::byte* data, uint32_t length, Handle&& handle) {
    Frame frame;
    return unpack(frame, data, length) && is_valid(frame) && handle(frame);
}

}  // namespace tern
