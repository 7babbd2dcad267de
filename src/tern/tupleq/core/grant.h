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

}  // namespace tern
