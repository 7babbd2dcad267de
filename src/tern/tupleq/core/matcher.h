// SPDX-License-Identifier: BSD-3-Clause
//
// The receiving side of TupleQ (docs/tern/tupleq.md), without a device. How a binding drives it:
//
//   a receive is posted              put it into Posted; posted(tag) if its mask is the key mask
//   Posted wants another key mask    change_key()
//   a receive is to be canceled     cancel()
//   a tagged message has come        ordinary(): matches it, or asks to hold it, in order, with
//                                    all further messages of this peer until kRetry
//   kRetry for a peer                retry() for its held messages, the oldest first, until one
//                                    returns kHold again
//   a message has come by a queue    direct(): the receive that has it
//   a drain has completed            drained(): the entry that is free; release its memory
//   Bound, Closed have come          bound(), closed()
//   a sender's number has been read  revoked(); while undecided(), ask_again() some time later
//   a channel has failed             first handle all its completions, then peer_died()
//   a tuple becomes hot, or cold     bind(), unbind(); see TuplePolicy
//
// After each call the binding first delivers the message, to the receive or as unexpected, and then
// performs actions(). The order matters: actions reach the user, who may then post a receive, and
// that receive must find all unexpected messages. The binding hands over the frames of a channel in
// the order in which they came. If a call returns false or kBroken, the peer violates the protocol;
// the binding fails its channel.
//
// Any queue pair that keeps the order of its writes may write grants, on two conditions: grants
// written before a Close with `unbind` are placed before the Close arrives, and no grant is placed
// as much as 2^15 messages of the tuple late. The channel's queue pair meets both.
#pragma once

#include <concepts>
#include <cstdint>

#include "tern/tupleq/core/action.h"
#include "tern/tupleq/core/messages.h"
#include "tern/tupleq/core/received_tuples.h"
#include "tern/tupleq/core/receiver.h"

namespace tern {

// The receive that a message has taken.
struct TakenReceive {
    ReceiveHandle receive = 0;  // 0: none was posted
    bool wildcard = false;
};

// The posted receives, granted ones included, in the order in which they were posted. A receive
// with the key mask matches all messages with its key, the bits of the tag in that mask. A receive
// with any other mask is a wildcard.
template <class T>
concept PostedTable = requires(T table, uint64_t tag, ReceiveHandle receive) {
    { table.key_mask() } -> std::same_as<uint64_t>;
    // Adopts another key mask; called only when no tuple is bound.
    {table.change_key()};
    // The first receive with the key of this tag; 0 if there is none.
    { table.first(tag) } -> std::same_as<ReceiveHandle>;
    // The next receive with the same key; 0 if there is none.
    { table.next(receive) } -> std::same_as<ReceiveHandle>;
    // True if a wildcard that could match any of the same messages was posted before the receive.
    { table.behind_wildcard(receive) } -> std::same_as<bool>;
    { table.capacity(receive) } -> std::same_as<uint64_t>;
    // Called before a grant: makes the receive's memory accessible to the device. False: the device
    // cannot write to it; neither this receive nor those behind it are granted.
    { table.prepare(receive) } -> std::same_as<bool>;
    // Removes the first receive that matches, and returns it.
    { table.take(tag) } -> std::same_as<TakenReceive>;
    {table.remove(receive)};
};

template <PostedTable Posted>
class TupleMatcher {
  public:
    struct Arrival {
        enum class Verdict : uint8_t {
            kMatched,  // with `receive`; unexpected if that is 0
            kHold,     // not decided yet: keep the message
            kBroken,
        };
        Verdict verdict = Verdict::kMatched;
        ReceiveHandle receive = 0;
    };
    // A message that the device has placed.
    struct Placed {
        ReceiveHandle receive = 0;  // 0: the queue has no receive; the peer violates the protocol
        uint32_t place = 0;
    };
    enum class Cancel : uint8_t {
        kDone,   // the receive is no longer posted
        kLater,  // kCanceled follows, or a message for the receive comes
        kNever,  // the receive's message is on its way
    };
    struct Counters {
        uint64_t direct = 0;       // messages that the device placed
        uint64_t ordinary = 0;     // messages of bound tuples that came the ordinary way
        uint64_t grants = 0;       // written
        uint64_t void_grants = 0;  // grants never used
        uint64_t drains = 0;       // entries drained
        uint64_t epochs = 0;       // epochs that ended with unused grants
        uint64_t binds = 0;        // queues bound, refused ones included
        uint64_t unbinds = 0;
        uint64_t holds = 0;     // messages held because another peer had been granted their receive
        uint64_t discards = 0;  // queues destroyed with their entries
    };

    // `queues`: their number; queues are numbered from 0. `depth`: entries of each, a power of two.
    TupleMatcher(Posted& posted, uint32_t queues, uint32_t depth)
        : posted_(&posted), tuples_(queues, depth) {}

    // Receives. Data path.
    void posted(uint64_t tag) {
        if (Tuple* tuple = tuples_.find(tag)) refill(*tuple);
    }
    // PostedTable::prepare() was false because of a bound on its work, and would be true now.
    void refill_all() {
        for (Tuple& tuple : tuples_) refill(tuple);
    }
    // `keyed`: the receive has the key mask.
    Cancel cancel(ReceiveHandle receive, uint64_t tag, bool keyed);
    // Unbinds all tuples, and then changes the key mask; until then no tuple is bound.
    void change_key();

    // Messages. Data path. `length`: bytes, of a message that could have been direct; otherwise 0.
    Arrival ordinary(uint32_t peer, uint64_t tag, const TupleMark* mark, uint64_t length = 0);
    Arrival retry(uint32_t peer, uint64_t tag);
    Placed direct(uint16_t number);
    // `place`: the entry that is free. False if no drain was due, or none is due any more because
    // the queue is to be discarded.
    bool drained(uint16_t number, uint32_t& place);

    // Control path.
    bool bound(uint32_t peer, const TupleBound& answer);
    bool closed(uint32_t peer, const TupleClosed& answer);
    // `sent`: the number that the kRevoke with this `count` has read.
    void revoked(uint16_t number, uint32_t count, uint16_t sent);
    // True if the sender may have used a grant that was to be taken back. Then its message comes,
    // or an ordinary one in its place. But the sender may have withdrawn its announcement and send
    // nothing; only ask_again() finds that out.
    bool undecided(uint16_t number) const;
    // True if moreover a cancel, or a message of another peer, waits for that.
    bool awaited(uint16_t number) const;
    void ask_again(uint16_t number) {
        if (undecided(number)) revoke(tuples_[number]);
    }
    // False if no queue is free, the key has one already, or the key mask is about to change. Only
    // messages with exactly this tag will be direct.
    bool bind(uint32_t peer, uint64_t tag);
    void unbind(uint16_t number);
    // Ends the tuples of the peer. Its held messages stay; its number must not be used again until
    // they have been matched or dropped.
    void peer_died(uint32_t peer);
    void drop_held(uint32_t peer);
    // The queue has been destroyed, as kDiscard asked.
    void replaced(uint16_t number) { tuples_[number].queue.reset(); }

    TupleActions& actions() { return actions_; }
    const Counters& counters() const { return counters_; }
    const ReceivedTuples& tuples() const { return tuples_; }
    // `revoking`: the sender's number is being read, by the kRevoke with count `revoke_count`.
    const ReceivedTuple& tuple(uint16_t number) const { return tuples_[number]; }
    const TupleReceiver& queue(uint16_t number) const { return tuples_[number].queue; }

    // For tests: the first message of a tuple has number `sequence` + 1 in epoch `epoch`.
    void start_at(uint16_t sequence, uint16_t epoch) { sequence_ = sequence, epoch_ = epoch; }
    void rebase(Posted& posted) { posted_ = &posted; }
    template <class Sink>
    void save(Sink&& sink) const;

  private:
    static constexpr uint16_t kMostWrongTags = 16;

    friend struct TupleSabotage;  // tests that leave out a rule
    using State = TupleReceiver::State;
    using Verdict = typename Arrival::Verdict;
    using Tuple = ReceivedTuple;

    TupleAction& act(TupleAction::Kind kind, const Tuple& tuple) {
        TupleAction& action = actions_.push();
        action.kind = kind;
        action.tuple = tuples_.number(tuple);
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
    void on_grants_used(Tuple& tuple);
    void settle(Tuple& tuple);
    void release_held(Tuple& tuple);
    void free_queue(Tuple& tuple);
    void change_key_if_free();

    Posted* posted_;
    ReceivedTuples tuples_;
    HeldMessages held_;
    TupleActions actions_;
    Counters counters_;
    bool any_blocked_ = false;
    bool changing_key_ = false;
    uint16_t sequence_ = 0;
    uint16_t epoch_ = 0;
};

}  // namespace tern

#include "tern/tupleq/core/matcher_inline.h"
