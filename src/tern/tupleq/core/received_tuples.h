// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "common/assert.h"
#include "tern/tupleq/core/index.h"
#include "tern/tupleq/core/receiver.h"

namespace tern {

// A tuple that this process receives, with its queue. TupleMatcher writes it.
struct ReceivedTuple {
    explicit ReceivedTuple(uint32_t depth) : queue(depth) {}

    // Indices into the sender's memory: of the grant for a message, and of the announced number.
    uint32_t slot(uint16_t sequence) const { return first_slot + (sequence & (queue.depth() - 1)); }
    uint32_t announced_slot() const { return first_slot + queue.depth(); }

    TupleReceiver queue;
    uint64_t tag = 0;  // of all direct messages of the tuple
    uint32_t peer = 0;
    uint32_t first_slot = 0;    // of its grants, as in TupleBound
    uint16_t sender = 0;        // the sender's number of the tuple
    uint16_t wrong_tags = 0;    // latest messages in a row with another tag of the same key
    bool blocked = false;       // the next receive is behind a wildcard
    bool holds_others = false;  // messages of other peers are held until its grants are decided
    bool unbinding = false;     // unbind as soon as possible
    bool revoking = false;      // grants are being taken back; no new grant is written
    uint32_t revoke_count = 0;  // number of kRevoke actions so far
};

// The tuples of all queues, by the queue's number and by key.
class ReceivedTuples {
  public:
    ReceivedTuples(uint32_t queues, uint32_t depth)
        : index_(queues), tuples_(queues, ReceivedTuple(depth)) {}

    // The bound tuple with the key of this tag; null or kNone if there is none. Data path.
    ReceivedTuple* find(uint64_t tag) {
        const uint16_t number = lookup(tag);
        return number == TupleIndex::kNone ? nullptr : &tuples_[number];
    }
    uint16_t lookup(uint64_t tag) const { return index_.find(0, tag); }
    // The tuple that a peer's frame names; null if it is not the peer's.
    ReceivedTuple* of_peer(uint32_t peer, uint16_t number) {
        return number < tuples_.size() && tuples_[number].peer == peer ? &tuples_[number] : nullptr;
    }
    ReceivedTuple& operator[](uint16_t number) { return tuples_[number]; }
    const ReceivedTuple& operator[](uint16_t number) const { return tuples_[number]; }
    uint16_t number(const ReceivedTuple& tuple) const {
        return static_cast<uint16_t>(&tuple - tuples_.data());
    }
    // From now on the tuple is found by its tag in these bits, or no longer.
    void insert(const ReceivedTuple& tuple, uint64_t mask) {
        TERN_ASSERT(lookup(tuple.tag) == TupleIndex::kNone);
        index_.insert(0, tuple.tag, mask, number(tuple));
    }
    void erase(const ReceivedTuple& tuple) {
        TERN_ASSERT(lookup(tuple.tag) == number(tuple));
        index_.erase(number(tuple));
    }
    bool any_bound() const { return !index_.empty(); }

    uint32_t size() const { return static_cast<uint32_t>(tuples_.size()); }
    auto begin() { return tuples_.begin(); }
    auto end() { return tuples_.end(); }
    auto begin() const { return tuples_.begin(); }
    auto end() const { return tuples_.end(); }

  private:
    TupleIndex index_;
    std::vector<ReceivedTuple> tuples_;
};

// How many messages of each peer are held. A peer with held messages is granted nothing, because
// these messages come first.
class HeldMessages {
  public:
    struct Held {
        uint32_t peer = 0;
        uint32_t messages = 0;
    };

    // Null if no message of the peer is held. Data path.
    Held* find(uint32_t peer) {
        for (Held& each : held_)
            if (each.peer == peer) return &each;
        return nullptr;
    }
    void add(uint32_t peer) {
        Held* held = find(peer);
        if (held == nullptr) held = &held_.emplace_back(Held{peer, 0});
        ++held->messages;
    }
    void drop(Held& held) {
        held = held_.back();
        held_.pop_back();
    }
    bool empty() const { return held_.empty(); }
    auto begin() const { return held_.begin(); }
    auto end() const { return held_.end(); }

  private:
    std::vector<Held> held_;
};

}  // namespace tern
