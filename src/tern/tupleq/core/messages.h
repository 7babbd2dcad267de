// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

// The word by which a receiver permits a sender to send one message of a tuple direct, into a
// posted receive: message `sequence`, in epoch `epoch`, if it is not longer than `capacity`.
//
//   bits  0..31  capacity in bytes
//   bits 32..47  sequence: the messages of a tuple are numbered 1, 2, ..., modulo 2^16
//   bits 48..62  epoch: number of events so far, modulo 2^15 (docs/tern/tupleq.md)
//   bit  63      1
//
// The grant lies in the sender's memory, little endian, in slot `sequence` modulo the depth of the
// tuple. The receiver writes it by RDMA and never reads it. The sender reads it, and clears it when
// message `sequence` has been sent, on either path. A device places 8 aligned bytes at once; even
// if it did not, it would place the last byte, which is never 0, last.
//
// A cleared grant cannot be mistaken for a later one whose numbers are the same modulo 2^16.
// Neither can a grant on its way: the queue pair that writes grants also returns credits, and
// without credits no sender gets 2^15 messages ahead. If both sides write the word at the same
// time, the grant may be lost; that only costs one message the direct path.
class Grant {
  public:
    static constexpr uint64_t kMostCapacity = 0xffffffff;
    static constexpr uint16_t kEpochMask = 0x7fff;

    constexpr Grant() = default;  // permits nothing
    constexpr explicit Grant(uint64_t raw) : raw_(raw) {}
    constexpr Grant(uint16_t epoch, uint16_t sequence, uint64_t capacity)
        : raw_(std::min(capacity, kMostCapacity) | head(epoch, sequence) << 32) {}

    constexpr uint64_t raw() const { return raw_; }
    constexpr bool valid() const { return raw_ >> 63 != 0; }
    constexpr uint16_t epoch() const { return static_cast<uint16_t>(raw_ >> 48) & kEpochMask; }
    constexpr uint16_t sequence() const { return static_cast<uint16_t>(raw_ >> 32); }
    constexpr uint32_t capacity() const { return static_cast<uint32_t>(raw_); }

    constexpr bool permits(uint16_t epoch, uint16_t sequence, uint64_t length) const {
        return raw_ >> 32 == head(epoch, sequence) && length <= capacity();
    }

    // Acquire: the grant is read before the message is posted.
    static Grant read(const uint64_t* slot) {
        return Grant(__atomic_load_n(slot, __ATOMIC_ACQUIRE));
    }
    // Relaxed: the post of a later message makes this store visible first.
    static void clear(uint64_t* slot) { __atomic_store_n(slot, 0, __ATOMIC_RELAXED); }

  private:
    static constexpr uint64_t head(uint16_t epoch, uint16_t sequence) {
        return uint64_t{0x80000000} | uint64_t{epoch} << 16 | sequence;
    }

    uint64_t raw_ = 0;
};

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
