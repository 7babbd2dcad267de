// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Control data that the receiver and the sender of a tuple exchange. It travels on the channel, in
// order with its ordinary messages. The order is significant: an answer separates the messages sent
// before it from those sent after. The receiver names a tuple by the number of its queue, the
// sender by a number of its own.

// Accompanies every ordinary message of a tuple, from Bound on.
struct TupleMark {
    uint16_t tuple = 0;
    uint16_t sequence = 0;  // of this message
};

// Receiver to sender: messages of exactly this tag may be sent to this queue, when granted.
struct TupleBind {
    uint64_t tag = 0;
    uint64_t mask = 0;  // bits of the tag that form the key; one mask for all tuples of a receiver
    uint16_t tuple = 0;
    uint16_t depth = 0;  // most grants at a time, a power of two
};

// Sender to receiver: the answer to Bind. From here on the sender numbers the messages with the
// key.
struct TupleBound {
    static constexpr uint16_t kRefused = 0xffff;

    uint16_t tuple = 0;
    uint16_t sender = kRefused;  // the sender's number of the tuple; kRefused: nothing is bound
    // Index of the first of `depth` grants in the sender's memory. The word behind the grants is
    // the announced number: of the last message, or of one that is about to be sent.
    uint32_t slot = 0;
};

// Receiver to sender: stop using the grants written so far.
struct TupleClose {
    uint16_t sender = 0;
    bool unbind = false;  // forget the tuple, too
};

// Sender to receiver: the answer to Close. Later messages use none of these grants, and have no
// number if `unbind`.
struct TupleClosed {
    uint16_t tuple = 0;
    uint16_t sequence = 0;  // of the last message sent, on either path
    bool unbind = false;
};

}  // namespace tern
