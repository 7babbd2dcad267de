// SPDX-License-Identifier: BSD-3-Clause
#include "tuple_world.h"

namespace tern {

TupleWorld::Peer::Peer(const TupleScenario& scenario)
    : grants(scenario.tuples * TupleSender::words(scenario.depth)),
      senders(grants.data(), scenario.tuples, scenario.depth) {
    senders.start_at(scenario.sequence, scenario.epoch);
}

TupleWorld::TupleWorld(const TupleScenario& scenario, Sabotage sabotage)
    : scenario_(&scenario),
      sabotage_(sabotage),
      receivers_(posted_, scenario.queues, scenario.depth),
      queues_(scenario.queues) {
    posted_.sabotage = sabotage;
    if (scenario.open) posted_.key = posted_.next_key = kWideMask;
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
      canceled_(other.canceled_),
      lost_(other.lost_),
      posts_(other.posts_),
      wildcards_(other.wildcards_),
      exacts_(other.exacts_),
      key_changes_(other.key_changes_),
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
        const bool busy = peer.announced.number != 0;
        if (busy) moves.push({Kind::kDecide, p});
        if (!busy && !peer.answers.empty() && peer.answers.front().grants_before == 0)
            moves.push({Kind::kAnswer, p});
        if (!peer.reads.empty()) moves.push({Kind::kRead, p});
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
        if (worth_asking(q)) moves.push({Kind::kAsk, q});
    }
    if (!receivers_.actions().empty()) moves.push({Kind::kAct});
}

void TupleWorld::moves(Moves& moves) {
    using Kind = TupleMove::Kind;
    deliveries(moves);
    const TupleScenario& s = *scenario_;
    // Every tag, without the open bit and with it.
    const auto each_tag = [&s](auto&& visit) {
        for (uint8_t tag = 1; tag <= s.tags; ++tag) {
            visit(tag, tag);
            if (s.open) visit(tag, static_cast<uint8_t>(tag | kOpenBit));
        }
    };
    for (uint8_t p = 0; p < peers_.size(); ++p) {
        Peer& peer = peers_[p];
        if (peer.dead || peer.announced.number != 0) continue;
        each_tag([&](uint8_t key, uint8_t tag) {
            if (peer.sent >= s.sends[p] || (s.only_tag[p] != 0 && s.only_tag[p] != key)) return;
            for (uint8_t length = 1; length <= s.longest; ++length)
                moves.push({Kind::kSend, p, tag, length});
        });
        each_tag([&](uint8_t, uint8_t tag) {
            if (binds_ < s.binds && receivers_.tuples().lookup(tag) == TupleIndex::kNone)
                moves.push({Kind::kBind, p, tag});
        });
        if (deaths_ < s.deaths) moves.push({Kind::kDeath, p});
    }
    for (uint8_t capacity = 1; capacity <= s.capacity && posts_ < s.posts; ++capacity) {
        if (wildcards_ < s.wildcards) moves.push({Kind::kPost, 0, 0, capacity});
        each_tag([&](uint8_t key, uint8_t tag) {
            if (s.open && tag == key) moves.push({Kind::kPost, kWideMask, tag, capacity});
            if (!s.open || exacts_ < s.exacts) moves.push({Kind::kPost, kExactMask, tag, capacity});
        });
    }
    if (key_changes_ < s.key_changes) moves.push({Kind::kKey});
    if (cancels_ < s.cancels)
        for (const Receive& receive : waiting_)
            if (!receive.cancel) moves.push({Kind::kCancel, receive.id});
    for (uint8_t q = 0; q < queues_.size() && unbinds_ < s.unbinds; ++q)
        if (receivers_.queue(q).state() == TupleReceiver::State::kOpen)
            moves.push({Kind::kUnbind, q});
}

void TupleWorld::apply(const TupleMove& move) {
    using Kind = TupleMove::Kind;
    switch (move.kind) {
        case Kind::kSend:
            send(move.a, move.b, move.c);
            break;
        case Kind::kPost:
            post(move.a, move.b, move.c);
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
        case Kind::kDecide:
            decide(move.a);
            break;
        case Kind::kGrant:
            grant(move.a);
            break;
        case Kind::kRead:
            read(move.a);
            break;
        case Kind::kAsk:
            receivers_.ask_again(move.a);
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
        case Kind::kKey:
            change_key();
            break;
        case Kind::kAct:
            act_next();
            break;
        case Kind::kPostLate:
            queues_[move.a].entries.push(queues_[move.a].late.pop());
            break;
        case Kind::kOvertake:
            std::swap(peers_[move.a].frames[0], peers_[move.a].frames[1]);
            frame(move.a);
            break;
    }
    note_removed();
    act_if_in_time();
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
    const uint32_t first = tuple->number * TupleSender::words(scenario_->depth);
    const auto next = static_cast<uint16_t>(sender.sequence() + 1);
    uint64_t& slot = peer.grants[first + (next & (sender.depth() - 1))];
    if (const Grant there(slot); there.valid()) {
        if (is(Sabotage::kEpochIgnored))
            slot = Grant(sender.epoch(), there.sequence(), there.capacity()).raw();
        if (is(Sabotage::kSequenceIgnored))
            slot = Grant(there.epoch(), next, there.capacity()).raw();
    }
    const uint64_t word = slot;
    const uint8_t fits = is(Sabotage::kCapacityIgnored) ? 0 : length;
    const bool may = tuple->may_send_direct(is(Sabotage::kTagIgnored) ? tuple->tag : tag, fits);
    peer.announced = message;
    if (!may) return decided(p, *tuple, false);
    const bool late = is(Sabotage::kNotLookedAgain) && scenario_->slow;
    if (!is(Sabotage::kNotAnnounced) && !late) sender.announce();
    if (scenario_->slow) return;
    decided(p, *tuple, sender.decide(fits));
    if (is(Sabotage::kSequenceIgnored)) slot = word;
}

void TupleWorld::decide(uint8_t p) {
    Peer& peer = peers_[p];
    TupleSenders::Tuple& tuple = *peer.senders.find(0, peer.announced.tag);
    TupleSender& sender = tuple.sender;
    if (is(Sabotage::kNotLookedAgain)) {
        sender.announce();
        const uint32_t first = tuple.number * TupleSender::words(scenario_->depth);
        const auto next = static_cast<uint16_t>(sender.sequence() + 1);
        peer.grants[first + (next & (sender.depth() - 1))] =
            Grant(sender.epoch(), next, peer.announced.length).raw();
    }
    decided(p, tuple, sender.decide(peer.announced.length));
}

void TupleWorld::decided(uint8_t p, TupleSenders::Tuple& tuple, bool direct) {
    Peer& peer = peers_[p];
    const Message message = peer.announced;
    peer.announced = {};
    if (direct) {
        peer.direct.push({message, static_cast<uint8_t>(tuple.receiver), false, {}});
        ++direct_sends_;
    } else {
        const TupleMark mark = TupleSenders::mark(tuple);
        peer.frames.push({Frame::Kind::kMessage, true, message, mark, {}, {}});
    }
}

// The user of the transport posts a receive, and first searches the unexpected messages.
void TupleWorld::post(uint8_t mask, uint8_t tag, uint8_t capacity) {
    const Receive receive{++posts_, mask, tag, capacity, false};
    wildcards_ += mask == 0;
    exacts_ += scenario_->open && mask == kExactMask;
    for (uint32_t i = 0; i < unexpected_.size(); ++i)
        if (receive.matches(unexpected_[i].tag)) {
            unexpected_.erase(i);
            return;
        }
    waiting_.push(receive);
    posted_.receives.push(receive);
    if (posted_.is_keyed(receive)) receivers_.posted(tag);
}

void TupleWorld::change_key() {
    ++key_changes_;
    posted_.next_key = posted_.next_key == kExactMask ? kWideMask : kExactMask;
    if (is(Sabotage::kKeyChangesAtOnce))
        posted_.change_key();
    else
        receivers_.change_key();
}

void TupleWorld::cancel(uint8_t id) {
    ++cancels_;
    for (Receive& receive : waiting_) {
        if (receive.id != id) continue;
        receive.cancel = true;
        switch (receivers_.cancel(id, receive.tag, posted_.is_keyed(receive))) {
            case Core::Cancel::kDone:
                note_removed();
                canceled(id);
                return;
            case Core::Cancel::kLater:
                if (!is(Sabotage::kCancelAtOnce)) return;
                posted_.remove(id);
                note_removed();
                canceled(id);
                return;
            case Core::Cancel::kNever:
                fail_books("a receive that waits is said to be taken");
                return;
        }
    }
}

}  // namespace tern
