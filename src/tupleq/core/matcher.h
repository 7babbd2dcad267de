// SPDX-License-Identifier: BSD-3-Clause
//
// The receiving side of TupleQ (docs/tupleq.md), without a device. A binding drives it so:
//
//   a receive is posted              put it into Posted; posted(tag) if its mask is the key mask
//   Posted wants another key mask    change_key()
//   a receive is to be cancelled     cancel()
//   a tagged message has come        ordinary(): it has matched it, or the message is to be held,
//   in
//                                    order, with all further ones of this peer until kRetry
//   kRetry for a peer                retry() for the held ones, the oldest first, until one says
//                                    kHold again
//   a queue's receive has completed  direct(): which receive that is
//   a drain has completed            drained(): which entry is free, and its memory
//   Bound, Closed have come          bound(), closed()
//   a sender's number has been read  revoked(); while undecided(), ask_again() some time later
//   a channel has failed             first all its completions, then peer_died()
//   a tuple is hot, or not any more  bind(), unbind(); see TuplePolicy
//
// After each of these it first delivers the message, to the receive or as unexpected, and then does
// what actions() says: what the user hears of may make it post a receive, and a receive that is
// posted must find all that is unexpected. Frames of a channel are handed over in the order in
// which they came. A false result, or kBroken: the peer breaks the rules; fail its channel.
//
// Grants may be written by any queue pair that writes them in order, with two conditions: those
// written before a Close with `unbind` are placed before that arrives, and no queue pair gets them
// placed 2^15 messages of the tuple late. The queue pair that carries the channel does both.
#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include "tupleq/core/action.h"
#include "tupleq/core/index.h"
#include "tupleq/core/messages.h"
#include "tupleq/core/receiver.h"

namespace tern {

// The receive that a message has taken.
struct TakenReceive {
    ReceiveHandle receive = 0;  // 0: none was posted
    bool wildcard = false;
};

// Receives that are posted, granted ones included, in the order in which they were posted. Those
// with the key mask match all messages with their key, the bits of the tag in that mask; those with
// any other mask are wildcards.
template <class T>
concept PostedTable = requires(T table, uint64_t tag, ReceiveHandle receive) {
    { table.key_mask() } -> std::same_as<uint64_t>;
    // Makes another one the key mask; no tuple is bound.
    {table.change_key()};
    // The first with the key of this tag; 0 if there is none.
    { table.first(tag) } -> std::same_as<ReceiveHandle>;
    // The one with the same key behind it.
    { table.next(receive) } -> std::same_as<ReceiveHandle>;
    // A wildcard that could match any of the same messages was posted before it.
    { table.behind_wildcard(receive) } -> std::same_as<bool>;
    { table.capacity(receive) } -> std::same_as<uint64_t>;
    // It is about to be granted: see that the device can write to its memory. If it cannot, the
    // receive is not granted, nor those behind it.
    { table.prepare(receive) } -> std::same_as<bool>;
    // Removes the first that matches.
    { table.take(tag) } -> std::same_as<TakenReceive>;
    {table.remove(receive)};
};

template <PostedTable Posted>
class TupleMatcher {
  public:
    // An ordinary message.
    struct Arrival {
        enum class Verdict : uint8_t {
            kMatched,  // with `receive`; unexpected if that is none
            kHold,     // not known yet: keep it
            kBroken,
        };
        Verdict verdict = Verdict::kMatched;
        ReceiveHandle receive = 0;
    };
    // A message that the device has placed.
    struct Placed {
        ReceiveHandle receive = 0;  // 0: the queue has none; the peer breaks the rules
        uint32_t place = 0;
    };
    enum class Cancel : uint8_t {
        kDone,   // it is no longer posted
        kLater,  // kCancelled follows, or a message for it comes
        kNever,  // its message is on the way
    };
    struct Counters {
        uint64_t direct = 0;       // messages that the device placed
        uint64_t ordinary = 0;     // messages of bound tuples that came the ordinary way
        uint64_t grants = 0;       // written
        uint64_t void_grants = 0;  // of those, never used
        uint64_t drains = 0;       // entries drained
        uint64_t epochs = 0;       // that ended with grants not used
        uint64_t binds = 0;        // queues bound, refused ones included
        uint64_t unbinds = 0;
        uint64_t holds = 0;     // messages held because another peer had been granted their receive
        uint64_t discards = 0;  // queues thrown away
    };

    // `queues`: how many there are, numbered from 0, `depth` entries each, a power of two.
    TupleMatcher(Posted& posted, uint32_t queues, uint32_t depth)
        : posted_(&posted), index_(queues), tuples_(queues, Tuple(depth)) {}

    // Receives. Data path.
    void posted(uint64_t tag) {
        if (Tuple* tuple = find(tag)) refill(*tuple);
    }
    // `keyed`: it has the key mask.
    Cancel cancel(ReceiveHandle receive, uint64_t tag, bool keyed);
    // Does it when all tuples are unbound; until then none is bound.
    void change_key();

    // Messages. Data path. `length`: of what could have been direct.
    Arrival ordinary(uint32_t peer, uint64_t tag, const TupleMark* mark, uint64_t length = 0);
    Arrival retry(uint32_t peer, uint64_t tag);
    Placed direct(uint16_t number);
    // False if nothing was to be drained, or is not any more since the queue is to be discarded.
    bool drained(uint16_t number, uint32_t& place);

    // Control path.
    bool bound(uint32_t peer, const TupleBound& answer);
    bool closed(uint32_t peer, const TupleClosed& answer);
    // What kRevoke with this count has read.
    void revoked(uint16_t number, uint32_t count, uint16_t sent);
    // A receive is to be cancelled that the sender may have used the grant of: its message comes,
    // or an ordinary one in its place. But if the sender has withdrawn what it had announced, and
    // sends nothing, only asking again tells.
    bool undecided(uint16_t number) const;
    void ask_again(uint16_t number) {
        if (undecided(number)) revoke(tuples_[number]);
    }
    // False if no queue is free, or the key has one already or is about to change. What goes
    // direct will have exactly this tag.
    bool bind(uint32_t peer, uint64_t tag);
    void unbind(uint16_t number);
    // Its held messages stay, and its number is not used again until they have been matched, or
    // dropped.
    void peer_died(uint32_t peer);
    void drop_held(uint32_t peer);
    // After kDiscard.
    void replaced(uint16_t number) { tuples_[number].queue.reset(); }

    TupleActions& actions() { return actions_; }
    const Counters& counters() const { return counters_; }
    // The tuple with the key of this tag; TupleIndex::kNone if there is none.
    uint16_t lookup(uint64_t tag) const { return index_.find(0, tag); }
    const TupleReceiver& queue(uint16_t number) const { return tuples_[number].queue; }
    uint32_t peer(uint16_t number) const { return tuples_[number].peer; }
    // That of all its direct messages.
    uint64_t tag(uint16_t number) const { return tuples_[number].tag; }
    // A number is being read, by the kRevoke with this count.
    bool revoking(uint16_t number) const { return tuples_[number].revoking; }
    uint32_t asked(uint16_t number) const { return tuples_[number].asked; }
    // Where the sender has the grant for a message, and what it announces.
    uint32_t slot(uint16_t number, uint16_t sequence) const {
        const Tuple& tuple = tuples_[number];
        return tuple.slot + (sequence & (tuple.queue.depth() - 1));
    }
    uint32_t announced_slot(uint16_t number) const {
        return tuples_[number].slot + tuples_[number].queue.depth();
    }
    uint32_t queues() const { return static_cast<uint32_t>(tuples_.size()); }

    // For tests: the first message of a tuple has number `sequence` + 1 in epoch `epoch`.
    void start_at(uint16_t sequence, uint16_t epoch) { sequence_ = sequence, epoch_ = epoch; }
    void rebase(Posted& posted) { posted_ = &posted; }
    template <class Sink>
    void save(Sink&& sink) const;

  private:
    static constexpr uint16_t kMostOthers = 16;

    friend struct TupleSabotage;  // tests that leave out a rule
    using State = TupleReceiver::State;
    using Verdict = Arrival::Verdict;

    struct Tuple {
        explicit Tuple(uint32_t depth) : queue(depth) {}

        TupleReceiver queue;
        uint64_t tag = 0;
        uint32_t peer = 0;
        uint32_t slot = 0;      // the first of its grants, in the sender's memory
        uint16_t sender = 0;    // the sender's number of it
        uint16_t others = 0;    // the last so many messages had another tag with the same key
        bool blocked = false;   // the next receive is behind a wildcard
        bool awaited = false;   // messages of other peers are held until its grants are decided
        bool leave = false;     // unbind as soon as that can be said
        bool revoking = false;  // grants are being taken back; none is written
        uint32_t asked = 0;     // how often that was so
    };
    // Messages of a peer that wait; nothing of it is granted meanwhile, for they come first.
    struct Held {
        uint32_t peer = 0;
        uint32_t messages = 0;
    };

    Tuple* find(uint64_t tag) {
        const uint16_t number = index_.find(0, tag);
        return number == TupleIndex::kNone ? nullptr : &tuples_[number];
    }
    uint16_t number(const Tuple& tuple) const {
        return static_cast<uint16_t>(&tuple - tuples_.data());
    }
    Tuple* checked(uint32_t peer, uint16_t number) {
        return number < tuples_.size() && tuples_[number].peer == peer ? &tuples_[number] : nullptr;
    }
    Held* held(uint32_t peer) {
        for (Held& held : held_)
            if (held.peer == peer) return &held;
        return nullptr;
    }
    TupleAction& act(TupleAction::Kind kind, const Tuple& tuple) {
        TupleAction& action = actions_.push();
        action.kind = kind;
        action.tuple = number(tuple);
        action.peer = tuple.peer;
        return action;
    }

    void refill(Tuple& tuple, bool late = false);
    void refill_blocked();
    Arrival match(uint32_t peer, uint64_t tag);
    bool epoch_ended(Tuple& tuple, uint16_t sequence, bool ordinary);
    void close(Tuple& tuple);
    void revoke(Tuple& tuple);
    void leave(Tuple& tuple);
    void settle(Tuple& tuple);
    void release_held(Tuple& tuple);
    void free_queue(Tuple& tuple);
    void change_key_if_free();

    Posted* posted_;
    TupleIndex index_;
    std::vector<Tuple> tuples_;
    std::vector<Held> held_;
    TupleActions actions_;
    Counters counters_;
    bool any_blocked_ = false;
    bool changing_key_ = false;
    uint16_t sequence_ = 0;
    uint16_t epoch_ = 0;
};

}  // namespace tern

#include "tupleq/core/matcher_inline.h"
