// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// What receiver and sender of a tuple tell each other. These travel with the ordinary messages of
// the channel, in order with them, and that order is what they mean: an answer separates what was
// sent before from what comes after. The receiver names a tuple by the number of its queue, the
// sender by a number of its own.

// Rides on every ordinary message of a tuple, from Bound on.
struct TupleMark {
    uint16_t tuple = 0;
    uint16_t sequence = 0;  // of this message
};

// Receiver to sender: messages of exactly this tag may go straight to this queue, when granted.
struct TupleBind {
    uint64_t tag = 0;
    uint64_t mask = 0;  // bits that make the key, the same for all tuples of this receiver's
    uint16_t tuple = 0;
    uint16_t depth = 0;  // grants at a time, a power of two
};

// Sender to receiver: the answer. From here on it numbers the messages with the key.
struct TupleBound {
    static constexpr uint16_t kRefused = 0xffff;

    uint16_t tuple = 0;
    uint16_t sender = kRefused;  // the sender's number; kRefused: no room, all stays as it was
    // The first of `depth` grants, counted in the sender's memory. Behind them is the number of the
    // last message, or of one that is about to be sent.
    uint32_t slot = 0;
};

// Receiver to sender: use no grant of those written so far.
struct TupleClose {
    uint16_t sender = 0;
    bool unbind = false;  // and forget the tuple
};

// Sender to receiver: the answer. Nothing that comes after uses them, or is numbered if `unbind`.
struct TupleClosed {
    uint16_t tuple = 0;
    uint16_t sequence = 0;  // of the last message sent, on either path
    bool unbind = false;
};

}  // namespace tern
