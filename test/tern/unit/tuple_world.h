// SPDX-License-Identifier: BSD-3-Clause
// One process that receives and some that send to it, around the real TupleMatcher and
// TupleSenders. Everything between them can be late: frames in both directions, grants, direct
// messages, drains. A reference model of MPI matching gives the right receive for each message. A
// world can be copied; worlds that will behave alike have the same digest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "few.h"
#include "tern/tupleq/core/matcher.h"
#include "tern/tupleq/core/senders.h"
#include "tuple_scenario.h"

namespace tern {

class TupleWorld {
  public:
    static constexpr unsigned kMost = 32;
    using Moves = Few<TupleMove, 192>;

    TupleWorld(const TupleScenario& scenario, Sabotage sabotage);
    TupleWorld(const TupleWorld& other);
    TupleWorld& operator=(const TupleWorld&) = delete;

    void moves(Moves& moves);
    // Only moves that deliver messages; nothing new begins.
    void deliveries(Moves& moves);
    void apply(const TupleMove& move);
    // Call when no move is left: checks that everything has ended.
    void expect_end();
    // Makes the moves whose indices choose(moves) returns, until none is left or something is
    // wrong, and then expects the end. After so many moves nothing new begins.
    template <class Choose>
    void run(uint64_t most, Choose&& choose) {
        for (Moves left;; most -= most != 0) {
            left.clear();
            if (most != 0) moves(left);
            if (most == 0 || left.empty()) deliveries(left);
            if (left.empty()) break;
            apply(left[choose(left)]);
            if (!wrong().empty()) break;
        }
        expect_end();
    }
    // Checks that messages are held only as long as devices need, and senders that are about to
    // send: no message waits for another sender's process.
    void expect_short_holds();
    // The first error; empty if there was none.
    const std::string& wrong() const { return wrong_; }
    // Two words, equal for worlds that behave alike.
    std::array<uint64_t, 2> digest() const;

    const auto& counters() const { return receivers_.counters(); }
    uint32_t direct_sends() const { return direct_sends_; }

  private:
    struct Message {
        uint8_t peer = 0;
        uint8_t number = 0;  // among the peer's messages
        uint8_t tag = 0;
        uint8_t length = 0;
    };
    struct Receive {
        uint8_t id = 0;
        uint8_t mask = 0;
        uint8_t tag = 0;
        uint8_t capacity = 0;
        bool cancel = false;

        bool matches(uint8_t other) const { return ((tag ^ other) & mask) == 0; }
    };
    // The table of posted receives that the core sees.
    struct Posted {
        Few<Receive, kMost> receives;
        Sabotage sabotage = Sabotage::kNone;
        uint8_t key = kExactMask;
        uint8_t next_key = kExactMask;
        bool keep = false;  // sabotage: removed receives stay
        bool lost = false;  // a receive to be removed was not there
        Few<uint8_t, kMost> removed;
        Few<Receive, 96> prepared;  // receives for the requested grants

        uint32_t find(ReceiveHandle receive) const;
        bool is_keyed(const Receive& receive) const { return receive.mask == key; }
        bool is_keyed(const Receive& receive, uint64_t tag) const {
            return is_keyed(receive) && ((receive.tag ^ tag) & key) == 0;
        }
        bool may_be_before(const Receive& receive, uint64_t tag) const {
            return !is_keyed(receive) && ((receive.tag ^ tag) & receive.mask & key) == 0;
        }
        uint64_t key_mask() const { return key == kExactMask ? ~uint64_t{0} : ~uint64_t{kOpenBit}; }
        void change_key() { key = next_key; }
        ReceiveHandle first(uint64_t tag) const;
        ReceiveHandle next(ReceiveHandle receive) const;
        bool behind_wildcard(ReceiveHandle receive) const;
        uint64_t capacity(ReceiveHandle receive) const;
        bool prepare(ReceiveHandle receive) {
            prepared.push(receives[find(receive)]);
            return true;
        }
        TakenReceive take(uint64_t tag);
        void remove(ReceiveHandle receive);
    };
    struct Frame {  // to the receiver
        enum class Kind : uint8_t { kMessage, kBound, kClosed } kind = Kind::kMessage;
        bool marked = false;
        Message message;
        TupleMark mark;
        TupleBound bound;
        TupleClosed closed;
        uint8_t sent = 0;  // messages that the peer sent before this frame
    };
    struct Answer {  // to a sender
        bool is_bind = false;
        TupleBind bind;
        TupleClose close;
        uint32_t grants_before = 0;
    };
    struct Write {
        uint32_t slot = 0;
        Grant grant;
        bool is_read = false;
        uint8_t tuple = 0;
        uint32_t count = 0;
    };
    struct Answered {  // a read
        uint8_t tuple = 0;
        uint32_t count = 0;
        uint16_t value = 0;
    };
    struct DirectMessage {
        Message message;
        uint8_t tuple = 0;
        bool matched = false;  // by the reference
        Receive receive;
    };
    struct HeldMessage {
        Message message;
        bool marked = false;
        TupleMark mark;
    };
    struct Peer {
        explicit Peer(const TupleScenario& scenario);

        std::vector<uint64_t> grants;
        TupleSenders senders;
        Few<Frame, kMost> frames;
        Few<Answer, kMost> answers;
        Few<Write, 96> writes;  // and reads, in order
        Few<Answered, kMost> reads;
        Message announced;  // number 0: none is announced
        Few<DirectMessage, kMost> direct;
        Few<HeldMessage, kMost> held;
        uint8_t sent = 0;
        bool dead = false;
    };
    struct InQueue {
        uint32_t place = 0;
        uint8_t receive = 0;
        uint8_t capacity = 0;
    };
    struct Queue {
        Few<InQueue, kMost> entries;
        Few<InQueue, kMost> late;  // sabotage
        uint32_t drains = 0;
        uint16_t last_read = 0;
    };

    using Core = TupleMatcher<Posted>;

    void fail(const std::string& what);
    // The core's state is inconsistent. This is an error only if no rule is left out; otherwise the
    // search is for visible consequences.
    void fail_books(const std::string& what) {
        if (is(Sabotage::kNone)) fail(what);
    }
    bool is(Sabotage sabotage) const { return sabotage_ == sabotage; }

    void send(uint8_t peer, uint8_t tag, uint8_t length);
    void post(uint8_t mask, uint8_t tag, uint8_t capacity);
    void change_key();
    void cancel(uint8_t receive);
    void frame(uint8_t peer);
    void answer(uint8_t peer);
    void decide(uint8_t peer);
    void decided(uint8_t peer, TupleSenders::Tuple& tuple, bool direct);
    void grant(uint8_t peer);
    void read(uint8_t peer);
    bool worth_asking(uint8_t queue);
    void direct(uint8_t peer);
    void drain(uint8_t queue);
    void death(uint8_t peer);
    void message(const Frame& frame);
    void retry(uint8_t peer);
    bool any_held() const;
    void act_if_in_time();
    void act();
    void act_next();
    void act_one(const TupleAction& action);

    // The reference.
    Receive match(const Message& message);
    void unmatch(const Receive& receive);
    void match_direct(uint8_t peer, uint8_t sent);
    void matched(const Message& message, ReceiveHandle receive);
    void canceled(ReceiveHandle receive);
    void note_removed();

    TupleScenario const* scenario_;
    Sabotage sabotage_;
    Posted posted_;
    Core receivers_;
    std::vector<Peer> peers_;
    std::vector<Queue> queues_;
    Few<Receive, kMost> waiting_;     // receives without a match, as in the reference
    Few<Message, kMost> unexpected_;  // messages without a receive
    Few<uint8_t, kMost> canceled_;    // receives whose cancel the user has not been told of
    Few<uint8_t, kMost> lost_;        // receives whose direct messages were lost with the peer
    uint8_t posts_ = 0;
    uint8_t wildcards_ = 0;
    uint8_t exacts_ = 0;
    uint8_t key_changes_ = 0;
    uint8_t cancels_ = 0;
    uint8_t binds_ = 0;
    uint8_t unbinds_ = 0;
    uint8_t deaths_ = 0;
    uint32_t direct_sends_ = 0;
    std::string wrong_;
};

}  // namespace tern
