// SPDX-License-Identifier: BSD-3-Clause
#include "tuple_world.h"

namespace tern {

// Leaves out rules that only the core itself could break.
struct TupleSabotage {
    // Nobody is held, for as long as this lives.
    template <class Core>
    struct NobodyHeld {
        explicit NobodyHeld(Core& core) : core_(core) { held_.swap(core.held_); }
        ~NobodyHeld() { held_.swap(core_.held_); }
        Core& core_;
        decltype(Core::held_) held_;
    };
    template <class Core>
    static void refill(Core& core, uint64_t tag) {
        NobodyHeld<Core> nobody(core);
        core.posted(tag);
    }
};

const char* name_of(Sabotage sabotage) {
    static constexpr const char* kNames[] = {
        "none",           "epoch ignored",     "sequence ignored",  "capacity ignored",
        "grants stay",    "post after grant",  "wildcards ignored", "marks ignored",
        "claims ignored", "voids not drained", "drains early",      "close not answered",
        "cancel at once", "answer overtakes",  "unbind overtakes",  "conflict ignored",
        "held ignored",   "marks held",
    };
    static_assert(std::size(kNames) == static_cast<size_t>(Sabotage::kCount));
    return kNames[static_cast<size_t>(sabotage)];
}

std::string TupleScenario::text() const {
    std::string text;
    auto add = [&text](const char* what, unsigned value) {
        text += std::string(text.empty() ? "" : ", ") + what + " " + std::to_string(value);
    };
    add("peers", peers), add("tags", tags), add("queues", queues), add("depth", depth);
    add("tuples", tuples);
    for (unsigned p = 0; p < peers; ++p) add("sends", sends[p]), add("only tag", only_tag[p]);
    add("posts", posts), add("wildcards", wildcards), add("cancels", cancels), add("binds", binds);
    add("unbinds", unbinds), add("deaths", deaths), add("longest", longest);
    add("capacity", capacity), add("sequence", sequence), add("epoch", epoch);
    return text;
}

std::string TupleMove::text() const {
    static constexpr const char* kNames[] = {
        "send peer,tag,length", "post -,tag,capacity", "cancel receive", "frame of peer",
        "answer to peer",       "grant to peer",       "direct of peer", "drain of queue",
        "bind peer,tag",        "unbind queue",        "death of peer",  "late post to queue",
        "answer overtakes",
    };
    return std::string(kNames[static_cast<size_t>(kind)]) + " " + std::to_string(a) + "," +
           std::to_string(b) + "," + std::to_string(c);
}

// The table of posted receives.

uint32_t TupleWorld::Posted::find(ReceiveHandle receive) const {
    uint32_t i = 0;
    while (i < receives.size() && receives.begin()[i].id != receive) ++i;
    return i;
}

ReceiveHandle TupleWorld::Posted::first(uint64_t tag) const {
    for (const Receive& receive : receives)
        if (receive.tag == tag) return receive.id;
    return 0;
}

ReceiveHandle TupleWorld::Posted::next(ReceiveHandle receive) const {
    const uint32_t from = find(receive);
    for (uint32_t i = from + 1; i < receives.size(); ++i)
        if (receives.begin()[i].tag == receives.begin()[from].tag) return receives.begin()[i].id;
    return 0;
}

bool TupleWorld::Posted::behind_wildcard(ReceiveHandle receive) const {
    if (sabotage == Sabotage::kWildcardsIgnored) return false;
    for (uint32_t i = find(receive); i-- != 0;)
        if (receives.begin()[i].tag == 0) return true;
    return false;
}

uint64_t TupleWorld::Posted::capacity(ReceiveHandle receive) const {
    const uint32_t i = find(receive);
    return i == receives.size() ? 0 : receives.begin()[i].capacity;
}

TakenReceive TupleWorld::Posted::take(uint64_t tag) {
    for (uint32_t i = 0; i < receives.size(); ++i) {
        const Receive receive = receives[i];
        if (receive.tag != tag && receive.tag != 0) continue;
        receives.erase(i);
        return {receive.id, receive.tag == 0};
    }
    return {};
}

void TupleWorld::Posted::remove(ReceiveHandle receive) {
    const uint32_t i = find(receive);
    if (i == receives.size())
        lost = true;
    else if (!keep)
        receives.erase(i);
}

// The world.

TupleWorld::Peer::Peer(const TupleScenario& scenario)
    : grants(scenario.tuples * scenario.depth),
      senders(grants.data(), scenario.tuples, scenario.depth) {
    senders.start_at(scenario.sequence, scenario.epoch);
}

TupleWorld::Peer::Peer(const Peer& other) = default;

TupleWorld::TupleWorld(const TupleScenario& scenario, Sabotage sabotage)
    : scenario_(&scenario),
      sabotage_(sabotage),
      receivers_(posted_, scenario.queues, scenario.depth),
      queues_(scenario.queues) {
    posted_.sabotage = sabotage;
    receivers_.start_at(scenario.sequence, scenario.epoch);
    peers_.reserve(scenario.peers);
    for (uint8_t i = 0; i < scenario.peers; ++i) peers_.emplace_back(scenario);
    for (auto [peer, tag] : scenario.bound) {
        receivers_.bind(peer, tag);
        act();
        answer(peer);
        frame(peer);
    }
}

TupleWorld::TupleWorld(const TupleWorld& other)
    : scenario_(other.scenario_),
      sabotage_(other.sabotage_),
      posted_(other.posted_),
      receivers_(other.receivers_),
      peers_(other.peers_),
      queues_(other.queues_),
      waiting_(other.waiting_),
      unexpected_(other.unexpected_),
      lost_(other.lost_),
      posts_(other.posts_),
      wildcards_(other.wildcards_),
      cancels_(other.cancels_),
      binds_(other.binds_),
      unbinds_(other.unbinds_),
      deaths_(other.deaths_),
      direct_sends_(other.direct_sends_),
      wrong_(other.wrong_) {
    receivers_.rebase(posted_);
    for (Peer& peer : peers_) peer.senders.rebase(peer.grants.data());
}

void TupleWorld::fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
}

void TupleWorld::deliveries(Moves& moves) {
    using Kind = TupleMove::Kind;
    for (uint8_t p = 0; p < peers_.size(); ++p) {
        Peer& peer = peers_[p];
        if (!peer.frames.empty()) moves.push({Kind::kFrame, p});
        if (!peer.answers.empty() && peer.answers.front().grants_before == 0)
            moves.push({Kind::kAnswer, p});
        if (!peer.writes.empty()) moves.push({Kind::kGrant, p});
        if (!peer.direct.empty()) moves.push({Kind::kDirect, p});
        if (is(Sabotage::kAnswerOvertakes) && peer.frames.size() > 1 &&
            peer.frames[0].kind == Frame::Kind::kMessage &&
            peer.frames[1].kind != Frame::Kind::kMessage)
            moves.push({Kind::kOvertake, p});
    }
    for (uint8_t q = 0; q < queues_.size(); ++q) {
        if (queues_[q].drains != 0) moves.push({Kind::kDrain, q});
        if (!queues_[q].late.empty()) moves.push({Kind::kPostLate, q});
    }
}

void TupleWorld::moves(Moves& moves) {
    using Kind = TupleMove::Kind;
    deliveries(moves);
    const TupleScenario& s = *scenario_;
    for (uint8_t p = 0; p < peers_.size(); ++p) {
        Peer& peer = peers_[p];
        if (peer.dead) continue;
        for (uint8_t tag = 1; tag <= s.tags && peer.sent < s.sends[p]; ++tag)
            for (uint8_t length = 1; length <= s.longest; ++length)
                if (s.only_tag[p] == 0 || s.only_tag[p] == tag)
                    moves.push({Kind::kSend, p, tag, length});
        for (uint8_t tag = 1; tag <= s.tags && binds_ < s.binds; ++tag)
            if (receivers_.lookup(tag) == TupleIndex::kNone) moves.push({Kind::kBind, p, tag});
        if (deaths_ < s.deaths) moves.push({Kind::kDeath, p});
    }
    if (posts_ < s.posts)
        for (uint8_t tag = wildcards_ < s.wildcards ? 0 : 1; tag <= s.tags; ++tag)
            for (uint8_t capacity = 1; capacity <= s.capacity; ++capacity)
                moves.push({Kind::kPost, 0, tag, capacity});
    if (cancels_ < s.cancels)
        for (const Receive& receive : waiting_)
            if (!receive.cancel) moves.push({Kind::kCancel, receive.id});
    for (uint8_t q = 0; q < queues_.size() && unbinds_ < s.unbinds; ++q)
        if (receivers_.queue(q).state() == TupleReceiver::State::kOpen ||
            receivers_.queue(q).state() == TupleReceiver::State::kClosing)
            moves.push({Kind::kUnbind, q});
}

void TupleWorld::apply(const TupleMove& move) {
    using Kind = TupleMove::Kind;
    switch (move.kind) {
        case Kind::kSend:
            send(move.a, move.b, move.c);
            break;
        case Kind::kPost:
            post(move.b, move.c);
            break;
        case Kind::kCancel:
            cancel(move.a);
            break;
        case Kind::kFrame:
            frame(move.a);
            break;
        case Kind::kAnswer:
            answer(move.a);
            break;
        case Kind::kGrant:
            grant(move.a);
            break;
        case Kind::kDirect:
            direct(move.a);
            break;
        case Kind::kDrain:
            drain(move.a);
            break;
        case Kind::kBind:
            ++binds_;
            receivers_.bind(move.a, move.b);
            break;
        case Kind::kUnbind:
            ++unbinds_;
            receivers_.unbind(move.a);
            break;
        case Kind::kDeath:
            death(move.a);
            break;
        case Kind::kPostLate:
            queues_[move.a].entries.push(queues_[move.a].late.pop());
            break;
        case Kind::kOvertake:
            std::swap(peers_[move.a].frames[0], peers_[move.a].frames[1]);
            frame(move.a);
            break;
    }
    act();
    if (posted_.lost) fail_books("the core removes a receive that is not posted");
}

void TupleWorld::send(uint8_t p, uint8_t tag, uint8_t length) {
    Peer& peer = peers_[p];
    const Message message{p, ++peer.sent, tag, length};
    TupleSenders::Tuple* tuple = peer.senders.find(0, tag);
    if (tuple == nullptr) {
        peer.frames.push({Frame::Kind::kMessage, false, message, {}, {}, {}});
        return;
    }
    TupleSender& sender = tuple->sender;
    const uint32_t first = tuple->number * scenario_->depth;
    const auto next = static_cast<uint16_t>(sender.sequence() + 1);
    uint64_t& slot = peer.grants[first + (next & (sender.depth() - 1))];
    if (const Grant there(slot); there.valid()) {
        if (is(Sabotage::kEpochIgnored))
            slot = Grant(sender.epoch(), there.sequence(), there.capacity()).raw();
        if (is(Sabotage::kSequenceIgnored))
            slot = Grant(there.epoch(), next, there.capacity()).raw();
    }
    if (sender.may_send_direct(is(Sabotage::kCapacityIgnored) ? 0 : length, false)) {
        const uint64_t word = slot;
        sender.sent_direct();
        if (is(Sabotage::kSequenceIgnored)) slot = word;
        peer.direct.push({message, static_cast<uint8_t>(tuple->receiver), false, {}});
        ++direct_sends_;
    } else {
        const TupleMark mark = TupleSenders::mark(*tuple);
        peer.frames.push({Frame::Kind::kMessage, true, message, mark, {}, {}});
    }
}

// What the user of the transport does: it has the unexpected messages.
void TupleWorld::post(uint8_t tag, uint8_t capacity) {
    const Receive receive{++posts_, tag, capacity, false};
    wildcards_ += tag == 0;
    for (uint32_t i = 0; i < unexpected_.size(); ++i)
        if (tag == 0 || unexpected_[i].tag == tag) {
            unexpected_.erase(i);
            return;
        }
    waiting_.push(receive);
    posted_.receives.push(receive);
    if (tag != 0) receivers_.posted(tag);
}

void TupleWorld::cancel(uint8_t id) {
    ++cancels_;
    for (Receive& receive : waiting_) {
        if (receive.id != id) continue;
        const uint8_t tag = receive.tag;
        receive.cancel = true;
        switch (receivers_.cancel(id, tag, tag != 0)) {
            case Core::Cancel::kDone:
                cancelled(id);
                return;
            case Core::Cancel::kLater:
                if (is(Sabotage::kCancelAtOnce)) {
                    posted_.remove(id);
                    cancelled(id);
                }
                return;
            case Core::Cancel::kNever:
                fail_books("a receive that waits is said to be taken");
                return;
        }
    }
}

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
            if (is(Sabotage::kCloseNotAnswered) && !frame.closed.unbind) break;
            match_direct(p, frame.sent);
            posted_.keep = is(Sabotage::kClaimsIgnored);
            if (!receivers_.closed(p, frame.closed)) fail("Closed is not accepted");
            posted_.keep = false;
            break;
    }
    act();
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
    act_cancelled();
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
            // Those behind it have not been told of.
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
    peer.grants[write.slot] = write.grant.raw();
    for (Answer& answer : peer.answers)
        if (answer.grants_before != 0) --answer.grants_before;
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
    const Core::Direct told = receivers_.direct(direct.tuple);
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
    if (!receivers_.drained(q, place)) fail_books("the core knows of no drain");
    if (place != entry.place) fail_books("the core is wrong about what is drained");
}

// All that is on the way from or to the peer is lost.
void TupleWorld::death(uint8_t p) {
    ++deaths_;
    Peer& peer = peers_[p];
    peer.dead = true;
    for (const DirectMessage& direct : peer.direct) {
        if (!direct.matched) continue;
        // Only the reference knows of the message, or the core too.
        if (posted_.find(direct.receive.id) != posted_.receives.size())
            unmatch(direct.receive);
        else
            lost_.push(direct.receive.id);
    }
    peer.frames.clear();
    peer.answers.clear();
    peer.writes.clear();
    peer.direct.clear();
    receivers_.peer_died(p);
}

void TupleWorld::act() {
    while (!receivers_.actions().empty()) {
        const TupleAction action = receivers_.actions().front();
        receivers_.actions().pop();
        act_one(action);
    }
    if (is(Sabotage::kHeldIgnored))
        for (uint8_t tag = 1; tag <= scenario_->tags; ++tag) TupleSabotage::refill(receivers_, tag);
    if (is(Sabotage::kHeldIgnored) && !receivers_.actions().empty()) act();
    if (is(Sabotage::kDrainsEarly))
        for (uint8_t q = 0; q < queues_.size(); ++q)
            while (queues_[q].entries.size() >
                   receivers_.queue(q).granted() + receivers_.queue(q).claimed())
                queues_[q].entries.pop();
}

// What was cancelled before a message was matched.
void TupleWorld::act_cancelled() {
    TupleActions& actions = receivers_.actions();
    while (!actions.empty() && actions.front().kind == TupleAction::Kind::kCancelled) {
        cancelled(actions.front().receive);
        actions.pop();
    }
}

void TupleWorld::act_one(const TupleAction& action) {
    using Kind = TupleAction::Kind;
    Peer& peer = peers_[action.peer];
    Queue& queue = queues_[action.tuple];
    const auto grants_before = is(Sabotage::kUnbindOvertakes) ? 0 : peer.writes.size();
    switch (action.kind) {
        case Kind::kBind:
            if (!peer.dead) peer.answers.push({true, action.bind, {}, 0});
            break;
        case Kind::kClose:
            if (is(Sabotage::kCloseNotAnswered) && !action.close.unbind) {
                // As if the sender had answered that it has used nothing that has not come.
                uint32_t waiting = 0;
                uint16_t known = 0;
                receivers_.queue(action.tuple).save([&, i = 0](auto value) mutable {
                    if (i++ == 1) known = static_cast<uint16_t>(value);
                });
                (void)waiting;
                receivers_.closed(action.peer, {action.tuple, known, false});
            }
            if (!peer.dead)
                peer.answers.push(
                    {false, {}, action.close, action.close.unbind ? grants_before : 0});
            break;
        case Kind::kGrant: {
            const auto id = static_cast<uint8_t>(action.receive);
            uint8_t capacity = 0;
            for (const Receive& receive : waiting_)
                if (receive.id == id) capacity = receive.capacity;
            if (capacity == 0) fail_books("a receive is granted that does not wait");
            for (const InQueue& entry : queue.entries)
                if (entry.place == action.place) fail_books("a place is used twice");
            if (queue.entries.size() == scenario_->depth) fail_books("the queue is too full");
            const InQueue entry{action.place, id, capacity};
            (is(Sabotage::kPostAfterGrant) ? queue.late : queue.entries).push(entry);
            if (!peer.dead) peer.writes.push({action.slot, action.grant});
            break;
        }
        case Kind::kDrain:
            queue.drains += action.count;
            if (is(Sabotage::kVoidsNotDrained))
                while (queue.drains != 0) drain(static_cast<uint8_t>(action.tuple));
            break;
        case Kind::kCancelled:
            cancelled(action.receive);
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

// The reference: a message takes the first receive that waits and matches.
TupleWorld::Receive TupleWorld::match(const Message& message) {
    for (uint32_t i = 0; i < waiting_.size(); ++i) {
        const Receive receive = waiting_[i];
        if (receive.tag != 0 && receive.tag != message.tag) continue;
        waiting_.erase(i);
        return receive;
    }
    return {};
}

// It waits again, where it was.
void TupleWorld::unmatch(const Receive& receive) {
    waiting_.push(receive);
    for (uint32_t i = waiting_.size() - 1; i != 0 && waiting_[i - 1].id > receive.id; --i)
        std::swap(waiting_[i - 1], waiting_[i]);
}

// What a peer has sent directly before something that has come, comes before it.
void TupleWorld::match_direct(uint8_t peer, uint8_t sent) {
    for (DirectMessage& direct : peers_[peer].direct)
        if (!direct.matched && direct.message.number <= sent) {
            direct.matched = true;
            direct.receive = match(direct.message);
        }
}

// The core has matched an ordinary message. What the peer sent before it comes before it.
void TupleWorld::matched(const Message& message, ReceiveHandle receive) {
    match_direct(message.peer, static_cast<uint8_t>(message.number - 1));
    if (match(message).id != receive) fail("an ordinary message is in the wrong receive");
    if (receive == 0) unexpected_.push(message);
}

void TupleWorld::cancelled(ReceiveHandle id) {
    for (uint32_t i = 0; i < waiting_.size(); ++i)
        if (waiting_[i].id == id) {
            if (!waiting_[i].cancel) fail_books("a receive is cancelled unasked");
            waiting_.erase(i);
            return;
        }
    if (!is(Sabotage::kCancelAtOnce)) fail("a receive is cancelled that does not wait");
}

void TupleWorld::expect_end() {
    if (!wrong_.empty()) return;
    for (const Peer& peer : peers_)
        if (!peer.held.empty()) fail("a message is held for ever");
    for (const Receive& receive : waiting_)
        if (receive.cancel) fail("a cancel has no end");
    if (!lost_.empty()) fail("a receive whose message is lost does not fail");
    for (uint8_t q = 0; q < queues_.size(); ++q) {
        const TupleReceiver& queue = receivers_.queue(q);
        if (queue.state() != TupleReceiver::State::kFree &&
            queue.state() != TupleReceiver::State::kOpen)
            fail("a queue is neither free nor open");
        if (queue.claimed() + queue.voids() != 0)
            fail_books("a queue has entries that are not granted");
        if (queues_[q].entries.size() != queue.granted())
            fail_books("the core is wrong about a queue");
        // What can be granted is.
        if (queue.state() != TupleReceiver::State::kOpen) continue;
        uint32_t may = 0;
        for (const Receive& receive : waiting_) {
            if (receive.tag == 0) break;
            may += receive.tag == receivers_.tag(q);
        }
        if (queue.granted() != std::min(may, queue.depth())) fail_books("a receive is not granted");
    }
    if (waiting_.size() != posted_.receives.size())
        fail_books("the core's table is not the reference's");
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
    auto add_receives = [&](const Few<Receive, kMost>& receives) {
        add(receives.size());
        for (const Receive& r : receives)
            add(r.id | r.tag << 8 | r.capacity << 16 | r.cancel << 24);
    };
    receivers_.save(add);
    add_receives(posted_.receives);
    add_receives(waiting_);
    add(unexpected_.size());
    for (const Message& message : unexpected_) add_message(message);
    add(lost_.size());
    for (uint8_t id : lost_) add(id);
    for (const Queue& queue : queues_) {
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
            add(answer.grants_before);
        }
        for (const Write& write : peer.writes) add(write.slot), add(write.grant.raw());
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
    add(unbinds_ | deaths_ << 8);
    return sum;
}

}  // namespace tern
