// SPDX-License-Identifier: BSD-3-Clause
// Arrivals in a TupleWorld, and the actions that the core requests.
#include <algorithm>

#include "tuple_world.h"

namespace tern {

// Leaves out rules that only the core itself could break.
struct TupleSabotage {
    // Hides the held messages from the core during its lifetime.
    template <class Core>
    struct NobodyHeld {
        explicit NobodyHeld(Core& core) : core_(core) { std::swap(held_, core.held_); }
        ~NobodyHeld() { std::swap(held_, core_.held_); }
        Core& core_;
        decltype(Core::held_) held_;
    };
    template <class Core>
    static void refill(Core& core, uint64_t tag) {
        NobodyHeld<Core> nobody(core);
        core.posted(tag);
    }
};

void TupleWorld::frame(uint8_t p) {
    const Frame frame = peers_[p].frames.pop();
    switch (frame.kind) {
        case Frame::Kind::kMessage:
            message(frame);
            break;
        case Frame::Kind::kBound:
            if (!receivers_.bound(p, frame.bound)) fail("Bound is not accepted");
            break;
        case Frame::Kind::kClosed:
            match_direct(p, frame.sent);
            posted_.keep = is(Sabotage::kClaimsIgnored);
            if (!receivers_.closed(p, frame.closed)) fail("Closed is not accepted");
            posted_.keep = false;
            break;
    }
}

void TupleWorld::message(const Frame& frame) {
    const Message& message = frame.message;
    Peer& peer = peers_[message.peer];
    if (is(Sabotage::kMarksIgnored) && frame.marked) {
        matched(message, posted_.take(message.tag).receive);
        return;
    }
    if (is(Sabotage::kMarksHeld) && !peer.held.empty()) {
        peer.held.push({message, frame.marked, frame.mark});
        return;
    }
    match_direct(message.peer, static_cast<uint8_t>(message.number - 1));
    posted_.keep = is(Sabotage::kClaimsIgnored);
    const Core::Arrival arrival =
        receivers_.ordinary(message.peer, message.tag, frame.marked ? &frame.mark : nullptr);
    posted_.keep = false;
    note_removed();
    switch (arrival.verdict) {
        case Core::Arrival::Verdict::kMatched:
            matched(message, arrival.receive);
            break;
        case Core::Arrival::Verdict::kBroken:
            fail("a message is not accepted");
            break;
        case Core::Arrival::Verdict::kHold:
            if (is(Sabotage::kConflictIgnored)) {
                matched(message, posted_.take(message.tag).receive);
                break;
            }
            peer.held.push({message, frame.marked, frame.mark});
            break;
    }
}

void TupleWorld::retry(uint8_t p) {
    Peer& peer = peers_[p];
    while (!peer.held.empty()) {
        const HeldMessage held = peer.held.front();
        const Core::Arrival arrival = receivers_.retry(p, held.message.tag);
        if (arrival.verdict == Core::Arrival::Verdict::kHold) return;
        if (arrival.verdict == Core::Arrival::Verdict::kBroken) {
            fail("a held message is not accepted");
            return;
        }
        peer.held.pop();
        matched(held.message, arrival.receive);
        if (is(Sabotage::kMarksHeld)) {
            // The core has not seen the messages behind this one.
            Few<HeldMessage, kMost> behind = peer.held;
            peer.held.clear();
            for (const HeldMessage& next : behind)
                message({Frame::Kind::kMessage, next.marked, next.message, next.mark, {}, {}});
            return;
        }
    }
}

void TupleWorld::answer(uint8_t p) {
    Peer& peer = peers_[p];
    const Answer answer = peer.answers.pop();
    Frame frame;
    if (answer.is_bind) {
        frame.kind = Frame::Kind::kBound;
        const std::vector<uint64_t> before = peer.grants;
        if (!peer.senders.bind(0, answer.bind, frame.bound)) fail("Bind is not accepted");
        if (is(Sabotage::kGrantsStay)) std::copy(before.begin(), before.end(), peer.grants.begin());
    } else {
        frame.kind = Frame::Kind::kClosed;
        if (!peer.senders.close(0, answer.close, frame.closed)) fail("Close is not accepted");
    }
    frame.sent = peer.sent;
    peer.frames.push(frame);
}

void TupleWorld::grant(uint8_t p) {
    Peer& peer = peers_[p];
    const Write write = peer.writes.pop();
    if (write.is_read)
        peer.reads.push({write.tuple, write.count, static_cast<uint16_t>(peer.grants[write.slot])});
    else
        peer.grants[write.slot] = write.grant.raw();
    for (Answer& answer : peer.answers)
        if (answer.grants_before != 0) --answer.grants_before;
}

void TupleWorld::read(uint8_t p) {
    const Answered read = peers_[p].reads.pop();
    queues_[read.tuple].last_read = read.value;
    posted_.keep = is(Sabotage::kClaimsIgnored);
    receivers_.revoked(read.tuple, read.count, read.value);
    posted_.keep = false;
}

// True if the number has changed since the last read; otherwise reads would never end.
bool TupleWorld::worth_asking(uint8_t q) {
    if (receivers_.queue(q).state() != TupleReceiver::State::kOpen || !receivers_.undecided(q))
        return false;
    const Peer& peer = peers_[receivers_.tuple(q).peer];
    for (const Write& write : peer.writes)
        if (write.is_read) return false;
    return peer.reads.empty() && receivers_.actions().empty() &&
           static_cast<uint16_t>(peer.grants[receivers_.tuple(q).announced_slot()]) !=
               queues_[q].last_read;
}

void TupleWorld::direct(uint8_t p) {
    const DirectMessage direct = peers_[p].direct.pop();
    Queue& queue = queues_[direct.tuple];
    if (queue.entries.empty()) {
        fail("a direct message finds the queue empty");
        return;
    }
    const InQueue entry = queue.entries.pop();
    if (entry.capacity < direct.message.length) fail("a direct message is longer than its receive");
    const uint8_t receive = direct.matched ? direct.receive.id : match(direct.message).id;
    if (receive != entry.receive) fail("a direct message is in the wrong receive");
    if (receivers_.tuple(direct.tuple).tag != direct.message.tag)
        fail("a direct message has the tag of another");
    const Core::Placed told = receivers_.direct(direct.tuple);
    if (told.receive != receive) fail_books("the core takes a direct message for another");
    if (told.place != entry.place) fail_books("the core is wrong about a place");
}

void TupleWorld::drain(uint8_t q) {
    Queue& queue = queues_[q];
    --queue.drains;
    uint32_t place = 0;
    InQueue entry;
    const bool gone = is(Sabotage::kDrainsEarly) || is(Sabotage::kVoidsNotDrained);
    if (queue.entries.empty())
        fail_books("nothing is left to drain");
    else if (!gone)
        entry = queue.entries.pop();
    const bool broken = receivers_.queue(q).state() == TupleReceiver::State::kBroken;
    if (receivers_.drained(q, place) == broken) fail_books("the core knows of no drain");
    if (!broken && place != entry.place) fail_books("the core is wrong about what is drained");
}

// Loses everything on its way to or from the peer.
void TupleWorld::death(uint8_t p) {
    ++deaths_;
    Peer& peer = peers_[p];
    peer.dead = true;
    for (const DirectMessage& direct : peer.direct) {
        if (!direct.matched) continue;
        // If the receive is still posted, only the reference knows of the message.
        if (posted_.find(direct.receive.id) != posted_.receives.size())
            unmatch(direct.receive);
        else
            lost_.push(direct.receive.id);
    }
    peer.frames.clear();
    peer.answers.clear();
    peer.writes.clear();
    peer.reads.clear();
    peer.announced = {};
    peer.direct.clear();
    receivers_.peer_died(p);
}

void TupleWorld::act_if_in_time() {
    if (!scenario_->late) act();
}

void TupleWorld::act() {
    while (!receivers_.actions().empty()) act_next();
    if (is(Sabotage::kHeldIgnored))
        for (uint8_t tag = 1; tag <= scenario_->tags; ++tag) TupleSabotage::refill(receivers_, tag);
    if (is(Sabotage::kHeldIgnored) && !receivers_.actions().empty()) act();
    if (is(Sabotage::kDrainsEarly))
        for (uint8_t q = 0; q < queues_.size(); ++q)
            while (queues_[q].entries.size() > receivers_.queue(q).live()) queues_[q].entries.pop();
}

void TupleWorld::act_next() {
    const TupleAction action = receivers_.actions().front();
    receivers_.actions().pop();
    act_one(action);
}

void TupleWorld::act_one(const TupleAction& action) {
    using Kind = TupleAction::Kind;
    Peer& peer = peers_[action.peer];
    Queue& queue = queues_[action.tuple];
    switch (action.kind) {
        case Kind::kBind:
            if (!peer.dead) peer.answers.push({true, action.bind, {}, 0});
            break;
        case Kind::kClose:
            // Close does not overtake grants.
            if (!peer.dead)
                peer.answers.push({false,
                                   {},
                                   action.close,
                                   action.close.unbind && !is(Sabotage::kUnbindOvertakes)
                                       ? peer.writes.size()
                                       : 0});
            break;
        case Kind::kRevoke: {
            const TupleReceiver& granted = receivers_.queue(action.tuple);
            if (is(Sabotage::kNotRead)) {
                receivers_.revoked(action.tuple, action.count, granted.known());
                note_removed();
            }
            if (peer.dead || is(Sabotage::kNotRead)) break;
            const Write read{receivers_.tuple(action.tuple).announced_slot(),
                             {},
                             true,
                             static_cast<uint8_t>(action.tuple),
                             action.count};
            if (is(Sabotage::kReadEarly)) peer.writes.push(read);
            for (uint32_t i = 1; i <= granted.granted(); ++i)
                peer.writes.push({receivers_.tuple(action.tuple)
                                      .slot(static_cast<uint16_t>(granted.known() + i)),
                                  {}});
            if (!is(Sabotage::kReadEarly)) peer.writes.push(read);
            break;
        }
        case Kind::kGrant: {
            const Receive receive = posted_.prepared.pop();
            if (receive.id != action.receive) fail_books("another receive is granted");
            for (const InQueue& entry : queue.entries)
                if (entry.place == action.place) fail_books("a place is used twice");
            if (queue.entries.size() == scenario_->depth) fail_books("the queue is too full");
            const InQueue entry{action.place, receive.id, receive.capacity};
            (is(Sabotage::kPostAfterGrant) ? queue.late : queue.entries).push(entry);
            if (!peer.dead) peer.writes.push({action.slot, action.grant});
            break;
        }
        case Kind::kDrain:
            queue.drains += action.count;
            if (is(Sabotage::kVoidsNotDrained))
                while (queue.drains != 0) drain(static_cast<uint8_t>(action.tuple));
            break;
        case Kind::kCanceled:
            canceled(action.receive);
            break;
        case Kind::kFailed: {
            uint32_t i = 0;
            while (i < lost_.size() && lost_[i] != action.receive) ++i;
            if (i == lost_.size())
                fail_books("a receive fails whose message is not lost");
            else
                lost_.erase(i);
            break;
        }
        case Kind::kRetry:
            retry(static_cast<uint8_t>(action.peer));
            break;
        case Kind::kDiscard:
            queue.entries.clear();
            queue.drains = 0;
            receivers_.replaced(action.tuple);
            break;
    }
}

}  // namespace tern
