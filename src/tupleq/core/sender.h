// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tupleq/core/grant.h"

namespace tern {

// A tuple as its sender sees it: which message is next, and whether it may go straight into the
// receive that is posted for it. Data path.
//
// The epoch is the number of events that have ended one: ordinary messages sent, and answers to
// Close. The receiver counts the same events when they arrive. A grant bears the receiver's count;
// if it is the sender's too, then nothing has gone the ordinary way that the receiver did not know
// of when it put the receive into the queue, so the receive is for this message.
//
// A receiver may take grants back, without this side's help: it writes zero over them and then
// reads the number that is announced here. A message that goes direct is announced, and then its
// grant is looked at again: so either the receiver sees the number, or this side sees the zero.
class TupleSender {
  public:
    TupleSender() = default;
    // Words of a tuple: one for each grant, and what is announced.
    static constexpr uint32_t words(uint32_t depth) { return depth + 1; }

    // `slots`: `depth` words that the receiver writes grants to, all zero, and one that it reads;
    // the caller's. The first message has number `sequence` + 1.
    TupleSender(uint64_t* slots, uint32_t depth, uint16_t sequence = 0, uint16_t epoch = 0)
        : slots_(slots), mask_(depth - 1), sequence_(sequence), epoch_(epoch) {
        tell(sequence);
    }

    // The next message may be sent to the queue, unless it needs an answer or has an immediate
    // value: a direct message has neither.
    bool may_send_direct(uint64_t length) const {
        const uint16_t next = sequence_ + 1;
        return Grant::read(slot(next)).permits(epoch_, next, length);
    }

    // The next message, which may, goes to the queue, and has number sequence(). To be called
    // before the device is told of it. False: the grant has been taken back; it has had no number.
    bool send_direct(uint64_t length) {
        announce();
        return decide(length);
    }
    // The two parts of it.
    void announce() {
        tell(sequence_ + 1);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    bool decide(uint64_t length) {
        if (!may_send_direct(length)) [[unlikely]] {
            tell(sequence_);
            return false;
        }
        Grant::clear(slot(++sequence_));
        return true;
    }
    // The next message goes the ordinary way. Returns its number, for its TupleMark.
    uint16_t sent_ordinary() {
        end_epoch();
        Grant::clear(slot(++sequence_));
        tell(sequence_);
        return sequence_;
    }
    // Close has come. Returns the number of the last message, for TupleClosed.
    uint16_t close() {
        end_epoch();
        return sequence_;
    }

    uint16_t sequence() const { return sequence_; }
    uint16_t epoch() const { return epoch_; }
    uint32_t depth() const { return mask_ + 1; }
    // The grants now lie here; for copies in tests.
    void rebase(uint64_t* slots) { slots_ = slots; }
    template <class Sink>
    void save(Sink&& sink) const {
        sink(mask_), sink(sequence_), sink(epoch_);
    }

  private:
    uint64_t* slot(uint16_t sequence) const { return slots_ + (sequence & mask_); }
    // The number of the last message, or of the one that is about to be sent. Written by this side,
    // read by the receiver's device.
    void tell(uint16_t sequence) {
        __atomic_store_n(slots_ + depth(), uint64_t{sequence}, __ATOMIC_RELAXED);
    }
    void end_epoch() { epoch_ = (epoch_ + 1) & Grant::kEpochMask; }

    uint64_t* slots_ = nullptr;
    uint32_t mask_ = 0;
    uint16_t sequence_ = 0;  // of the last message sent
    uint16_t epoch_ = 0;
};

}  // namespace tern
