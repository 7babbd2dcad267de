// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tupleq/core/index.h"
#include "tupleq/core/messages.h"
#include "tupleq/core/sender.h"

namespace tern {

// The tuples that this process sends, to any receiver, and where their grants are written.
//
// A peer is a number that the binding gives to a channel. Before a number is used again the queue
// pair by which the old peer wrote grants is gone.
//
// How a binding sends a message:
//     Tuple* tuple = senders.find(peer, tag);
//     if (tuple == nullptr)                                  an ordinary message
//     else if (tuple->may_send_direct(tag, length)           and there is room in the XRC queue
//              && tuple->sender.send_direct(length))         pair
//         post it to the queue of that tuple
//     else                                                   an ordinary message with mark(*tuple)
//
// A tuple has all messages of a key, but only those of its very tag go direct: a direct message
// does not say what its tag is.
class TupleSenders {
  public:
    struct Tuple {
        // The next message, which has this tag, may be direct.
        bool may_send_direct(uint64_t its_tag, uint64_t length) const {
            return its_tag == tag && sender.may_send_direct(length);
        }

        TupleSender sender;
        uint64_t tag = 0;
        uint64_t mask = 0;
        uint16_t receiver = 0;  // the receiver's number of it
        uint16_t number = 0;    // ours
        uint32_t peer = 0;
        bool bound = false;
    };

    // `grants`: TupleSender::words(depth) for each of `tuples`, which peers write to and read; the
    // caller's.
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
    // The next message is an ordinary one; call once for each, when it is certain to go.
    static TupleMark mark(Tuple& tuple) { return {tuple.receiver, tuple.sender.sent_ordinary()}; }

    // Bind has come: what to answer. False if the peer breaks the rules.
    bool bind(uint32_t peer, const TupleBind& bind, TupleBound& answer);
    // Close has come: what to answer. False if the peer breaks the rules.
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
