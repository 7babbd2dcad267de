// SPDX-License-Identifier: BSD-3-Clause
// The reference of a TupleWorld: the table of posted receives that the core sees, MPI's matching,
// and the conditions at the end.
#include <algorithm>

#include "tuple_world.h"

namespace tern {

// The table of posted receives.

uint32_t TupleWorld::Posted::find(ReceiveHandle receive) const {
    uint32_t i = 0;
    while (i < receives.size() && receives.begin()[i].id != receive) ++i;
    return i;
}

ReceiveHandle TupleWorld::Posted::first(uint64_t tag) const {
    for (const Receive& receive : receives)
        if (is_keyed(receive, tag)) return receive.id;
    return 0;
}

ReceiveHandle TupleWorld::Posted::next(ReceiveHandle receive) const {
    const uint32_t from = find(receive);
    for (uint32_t i = from + 1; i < receives.size(); ++i)
        if (is_keyed(receives.begin()[i], receives.begin()[from].tag))
            return receives.begin()[i].id;
    return 0;
}

bool TupleWorld::Posted::behind_wildcard(ReceiveHandle receive) const {
    if (sabotage == Sabotage::kWildcardsIgnored) return false;
    const uint32_t from = find(receive);
    for (uint32_t i = from; i-- != 0;)
        if (may_be_before(receives.begin()[i], receives.begin()[from].tag)) return true;
    return false;
}

uint64_t TupleWorld::Posted::capacity(ReceiveHandle receive) const {
    const uint32_t i = find(receive);
    return i == receives.size() ? 0 : receives.begin()[i].capacity;
}

TakenReceive TupleWorld::Posted::take(uint64_t tag) {
    for (uint32_t i = 0; i < receives.size(); ++i) {
        const Receive receive = receives[i];
        if (!receive.matches(static_cast<uint8_t>(tag))) continue;
        receives.erase(i);
        return {receive.id, !is_keyed(receive)};
    }
    return {};
}

void TupleWorld::Posted::remove(ReceiveHandle receive) {
    const uint32_t i = find(receive);
    if (i == receives.size()) {
        lost = true;
    } else if (!keep) {
        removed.push(receives[i].id);
        receives.erase(i);
    }
}

// The reference: a message takes the first waiting receive that matches.
TupleWorld::Receive TupleWorld::match(const Message& message) {
    for (uint32_t i = 0; i < waiting_.size(); ++i) {
        const Receive receive = waiting_[i];
        if (!receive.matches(message.tag)) continue;
        waiting_.erase(i);
        return receive;
    }
    return {};
}

// The receive waits again, in its old place.
void TupleWorld::unmatch(const Receive& receive) {
    waiting_.push(receive);
    for (uint32_t i = waiting_.size() - 1; i != 0 && waiting_[i - 1].id > receive.id; --i)
        std::swap(waiting_[i - 1], waiting_[i]);
}

// Direct messages that the peer sent before a frame that has come precede the frame.
void TupleWorld::match_direct(uint8_t peer, uint8_t sent) {
    for (DirectMessage& direct : peers_[peer].direct)
        if (!direct.matched && direct.message.number <= sent) {
            direct.matched = true;
            direct.receive = match(direct.message);
        }
}

// The core has matched an ordinary message. Earlier messages of the peer are matched first.
void TupleWorld::matched(const Message& message, ReceiveHandle receive) {
    match_direct(message.peer, static_cast<uint8_t>(message.number - 1));
    if (match(message).id != receive) fail("an ordinary message is in the wrong receive");
    if (receive == 0) unexpected_.push(message);
}

// The core has canceled the receives that it removed for no message. No message may match them,
// even if other messages are matched before the user is told.
void TupleWorld::note_removed() {
    for (const uint8_t id : posted_.removed)
        for (uint32_t i = 0; i < waiting_.size(); ++i) {
            if (waiting_[i].id != id) continue;
            if (!waiting_[i].cancel) fail("a receive is canceled unasked");
            canceled_.push(id);
            waiting_.erase(i);
            break;
        }
    posted_.removed.clear();
}

void TupleWorld::canceled(ReceiveHandle id) {
    for (uint32_t i = 0; i < canceled_.size(); ++i)
        if (canceled_[i] == id) {
            canceled_.erase(i);
            return;
        }
    if (!is(Sabotage::kCancelAtOnce)) fail("a receive is canceled that does not wait");
}

void TupleWorld::expect_end() {
    if (!wrong_.empty()) return;
    for (const Peer& peer : peers_)
        if (!peer.held.empty()) fail("a message is held for ever");
    for (const Receive& receive : waiting_)
        if (receive.cancel) fail("a cancel has no end");
    if (!canceled_.empty()) fail("a cancel is not told of");
    if (!lost_.empty()) fail("a receive whose message is lost does not fail");
    for (uint8_t q = 0; q < queues_.size(); ++q) {
        const TupleReceiver& queue = receivers_.queue(q);
        if (queue.state() != TupleReceiver::State::kFree &&
            queue.state() != TupleReceiver::State::kOpen)
            fail("a queue is neither free nor open");
        if (queue.claimed() + queue.void_entries() != 0)
            fail_books("a queue has entries that are not granted");
        if (queues_[q].entries.size() != queue.granted())
            fail_books("the core is wrong about a queue");
        // Whatever can be granted is granted.
        if (queue.state() != TupleReceiver::State::kOpen) continue;
        uint32_t may = 0;
        for (const Receive& receive : waiting_) {
            if (posted_.may_be_before(receive, receivers_.tuple(q).tag)) break;
            may += posted_.is_keyed(receive, receivers_.tuple(q).tag);
        }
        if (queue.granted() > may || queue.granted() < std::min(may, queue.window().limit(true)))
            fail_books("a receive is not granted");
        // The sender can use the grants.
        TupleSenders& senders = peers_[receivers_.tuple(q).peer].senders;
        const TupleSenders::Tuple* tuple = senders.find(0, receivers_.tuple(q).tag);
        if (tuple == nullptr || tuple->sender.may_send_direct(0) != (queue.granted() != 0))
            fail_books("a grant is of no use");
    }
    if (posted_.key != posted_.next_key) fail_books("the key mask has not changed");
    if (waiting_.size() != posted_.receives.size())
        fail_books("the core's table is not the reference's");
}

bool TupleWorld::any_held() const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return !peer.held.empty(); });
}

// What is under way arrives, but no process sends, and none answers.
void TupleWorld::expect_short_holds() {
    using Kind = TupleMove::Kind;
    if (!any_held() || !wrong_.empty()) return;
    if (std::any_of(peers_.begin(), peers_.end(),
                    [](const Peer& peer) { return peer.announced.number != 0; }))
        return;
    TupleWorld later(*this);
    Moves moves;
    for (;;) {
        moves.clear();
        later.deliveries(moves);
        const auto next = std::find_if(moves.begin(), moves.end(), [](const TupleMove& move) {
            return move.kind != Kind::kAnswer;
        });
        if (next == moves.end()) break;
        later.apply(*next);
    }
    if (later.any_held()) fail("a message waits for a process");
}

std::array<uint64_t, 2> TupleWorld::digest() const {
    std::array<uint64_t, 2> sum{0x243f6a8885a308d3, 0x13198a2e03707344};
    auto add = [&sum](auto value) {
        const auto word = static_cast<uint64_t>(value);
        sum[0] = (sum[0] ^ word) * 0x9e3779b97f4a7c15;
        sum[0] ^= sum[0] >> 32;
        sum[1] = (sum[1] + word) * 0xd1b54a32d192ed03;
        sum[1] ^= sum[1] >> 29;
    };
    auto add_message = [&](const Message& m) {
        add(m.peer | m.number << 8 | m.tag << 16 | m.length << 24);
    };
    auto add_receives = [&](const auto& receives) {
        add(receives.size());
        for (const Receive& r : receives)
            add(r.id | r.tag << 8 | r.capacity << 16 | r.cancel << 24 | uint64_t{r.mask} << 32);
    };
    receivers_.save(add);
    add_receives(posted_.receives);
    add_receives(waiting_);
    add(unexpected_.size());
    for (const Message& message : unexpected_) add_message(message);
    add(canceled_.size());
    for (uint8_t id : canceled_) add(id);
    add_receives(posted_.prepared);
    add(lost_.size());
    for (uint8_t id : lost_) add(id);
    for (const Queue& queue : queues_) {
        add(queue.last_read);
        add(queue.entries.size() | queue.late.size() << 8 | queue.drains << 16);
        for (const InQueue& entry : queue.entries) add(entry.receive | entry.capacity << 8);
        for (const InQueue& entry : queue.late) add(entry.receive | entry.capacity << 8);
    }
    for (const Peer& peer : peers_) {
        peer.senders.save(add);
        for (uint64_t word : peer.grants) add(word);
        add(peer.sent | peer.dead << 8);
        add(peer.frames.size() | peer.answers.size() << 8 | peer.writes.size() << 16 |
            peer.direct.size() << 24 | uint64_t{peer.held.size()} << 32);
        for (const Frame& frame : peer.frames) {
            add(static_cast<uint8_t>(frame.kind) | frame.marked << 8);
            add_message(frame.message);
            add(frame.mark.tuple | frame.mark.sequence << 16);
            add(frame.bound.tuple | uint64_t{frame.bound.sender} << 16 |
                uint64_t{frame.bound.slot} << 32);
            add(frame.closed.tuple | uint64_t{frame.closed.sequence} << 16 |
                uint64_t{frame.closed.unbind} << 32);
        }
        for (const Answer& answer : peer.answers) {
            add(answer.is_bind | answer.close.unbind << 1 | answer.close.sender << 8 |
                uint64_t{answer.bind.tuple} << 32 | answer.bind.tag << 48);
            add(answer.grants_before), add(answer.bind.mask);
        }
        for (const Write& write : peer.writes)
            add(write.slot | uint64_t{write.is_read} << 32), add(write.grant.raw());
        add(peer.reads.size());
        for (const Answered& read : peer.reads) add(read.tuple | read.value << 8);
        add_message(peer.announced);
        for (const DirectMessage& direct : peer.direct) {
            add_message(direct.message);
            add(direct.tuple | direct.matched << 8 | direct.receive.id << 16 |
                direct.receive.cancel << 24);
        }
        for (const HeldMessage& held : peer.held) {
            add_message(held.message);
            add(held.marked | held.mark.tuple << 8);
            add(held.mark.sequence);
        }
    }
    add(posts_ | wildcards_ << 8 | cancels_ << 16 | binds_ << 24);
    add(unbinds_ | deaths_ << 8 | exacts_ << 16 | key_changes_ << 24);
    add(posted_.key | posted_.next_key << 8);
    return sum;
}

}  // namespace tern
