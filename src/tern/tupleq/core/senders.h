// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tern/tupleq/core/index.h"
#include "tern/tupleq/core/messages.h"

namespace tern {

// A tuple at its sender: the number of the next message, and whether that message may be direct.
// Data path.
//
// The epoch is the number of events so far: ordinary messages sent, and answers to Close. The
// receiver counts the same events when they arrive, and writes its count into each grant. If that
// count is the sender's own, the receiver knew of all ordinary messages when it put the receive
// into the queue, so the receive is for this message.
//
// A receiver may take grants back without the sender's help: it writes zero over them and then
// reads the number that is announced here. The sender announces a direct message, and then looks at
// its grant again. So either the receiver sees the number, or the sender sees the zero.
class TupleSender {
  public:
    TupleSender() = default;
    // Words of a tuple: its grants, and the announced number.
    static constexpr uint32_t words(uint32_t depth) { return depth + 1; }

    // `slots`: memory of the caller: `depth` words, all zero, that the receiver writes grants to,
    // and one word that the receiver reads. The first message has number `sequence` + 1.
    TupleSender(uint64_t* slots, uint32_t depth, uint16_t sequence = 0, uint16_t epoch = 0)
        : slots_(slots), mask_(depth - 1), sequence_(sequence), epoch_(epoch) {
        write_announced(sequence);
    }

    // True if the next message may be direct. The caller sees to it that the message needs no
    // answer and has no immediate value, which a direct message cannot have.
    bool may_send_direct(uint64_t length) const {
        const uint16_t next = sequence_ + 1;
        return Grant::read(slot(next)).permits(epoch_, next, length);
    }

    // The next message, which may be direct, is sent to the queue; its number is then sequence().
    // Call before the message is posted. False: the grant has been taken back, and no
    // number was used.
    bool send_direct(uint64_t length) {
        announce();
        return decide(length);
    }
    // send_direct() in two steps.
    void announce() {
        write_announced(sequence_ + 1);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    bool decide(uint64_t length) {
        if (!may_send_direct(length)) [[unlikely]] {
            write_announced(sequence_);
            return false;
        }
        Grant::clear(slot(++sequence_));
        return true;
    }
    // The next message is ordinary. Returns its number, for its TupleMark.
    uint16_t sent_ordinary() {
        next_epoch();
        Grant::clear(slot(++sequence_));
        write_announced(sequence_);
        return sequence_;
    }
    // Close has come. Returns the number of the last message, for TupleClosed.
    uint16_t close() {
        next_epoch();
        return sequence_;
    }

    uint16_t sequence() const { return sequence_; }
    uint16_t epoch() const { return epoch_; }
    uint32_t depth() const { return mask_ + 1; }
    // For copies in tests: the grants now lie here.
    void rebase(uint64_t* slots) { slots_ = slots; }
    template <class Sink>
    void save(Sink&& sink) const {
        sink(mask_), sink(sequence_), sink(epoch_);
    }

  private:
    uint64_t* slot(uint16_t sequence) const { return slots_ + (sequence & mask_); }
    // Writes the announced number: of the last message, or of one that is about to be sent. The
    // receiver's device reads it.
    void write_announced(uint16_t sequence) {
        __atomic_store_n(slots_ + depth(), uint64_t{sequence}, __ATOMIC_RELAXED);
    }
    void next_epoch() { epoch_ = (epoch_ + 1) & Grant::kEpochMask; }

    uint64_t* slots_ = nullptr;
    uint32_t mask_ = 0;
    uint16_t sequence_ = 0;  // of the last message sent
    uint16_t epoch_ = 0;
};

// The tuples that this process sends, to any receiver, and the memory for their grants.
//
// A peer is a number that the binding gives to a channel. The binding uses a number again only when
// the queue pair by which the old peer wrote grants is gone.
//
// Use by a binding to send a message:
//     Tuple* tuple = senders.find(peer, tag);
//     if (tuple == nullptr)                                  an ordinary message
//     else if (tuple->may_send_direct(tag, length)           and there is room in the XRC queue
//              && tuple->sender.send_direct(length))         pair
//         post it to the queue of that tuple
//     else                                                   an ordinary message with mark(*tuple)
//
// All messages with the key belong to a tuple, but only those with exactly its tag may be direct,
// because a direct message does not carry its tag.
class TupleSenders {
  public:
    struct Tuple {
        // True if the next message may be direct, given that it has this tag.
        bool may_send_direct(uint64_t its_tag, uint64_t length) const {
            return its_tag == tag && sender.may_send_direct(length);
        }

        TupleSender sender;
        uint64_t tag = 0;
        uint64_t mask = 0;
        uint16_t receiver = 0;  // the receiver's number of the tuple
        uint16_t number = 0;    // the sender's number of the tuple
        uint32_t peer = 0;
        bool bound = false;
    };

    // `grants`: memory of the caller, which peers write to and read: TupleSender::words(depth)
    // words for each of `tuples`.
    TupleSenders(uint64_t* grants, uint32_t tuples, uint32_t depth)
        : grants_(grants), depth_(depth), index_(tuples), tuples_(tuples) {
        free_.reserve(tuples);
        for (uint32_t i = tuples; i-- != 0;) free_.push_back(static_cast<uint16_t>(i));
    }

    // Data path. Null if messages of this tag to this peer are ordinary.
    Tuple* find(uint32_t peer, uint64_t tag) {
        const uint16_t number = index_.find(peer, tag);
        return number == TupleIndex::kNone ? nullptr : &tuples_[number];
    }
    // The next message is ordinary. Call once for each, when the message is certain to be sent.
    static TupleMark mark(Tuple& tuple) { return {tuple.receiver, tuple.sender.sent_ordinary()}; }

    // Bind has come; sets the answer. False if the peer violates the protocol.
    bool bind(uint32_t peer, const TupleBind& bind, TupleBound& answer);
    // Close has come; sets the answer. False if the peer violates the protocol.
    bool close(uint32_t peer, const TupleClose& close, TupleClosed& answer);
    void peer_died(uint32_t peer);

    uint32_t bound() const { return static_cast<uint32_t>(tuples_.size() - free_.size()); }
    // For tests: the first message of a tuple has number `sequence` + 1 in epoch `epoch`.
    void start_at(uint16_t sequence, uint16_t epoch) { sequence_ = sequence, epoch_ = epoch; }
    void rebase(uint64_t* grants);
    template <class Sink>
    void save(Sink&& sink) const {
        for (const Tuple& tuple : tuples_) {
            sink(tuple.bound);
            if (!tuple.bound) continue;
            sink(tuple.receiver), sink(tuple.peer), sink(tuple.tag), sink(tuple.mask);
            tuple.sender.save(sink);
        }
    }

  private:
    uint32_t first_slot(uint16_t number) const { return number * TupleSender::words(depth_); }
    void forget(Tuple& tuple);

    uint64_t* grants_;
    uint32_t depth_;
    uint16_t sequence_ = 0;
    uint16_t epoch_ = 0;
    TupleIndex index_;
    std::vector<Tuple> tuples_;
    std::vector<uint16_t> free_;
};

}  // namespace tern
