// SPDX-License-Identifier: BSD-3-Clause
#include "tuple_world.h"

namespace tern {

TupleWorld::Peer::Peer(const TupleScenario& scenario)
    : grants(scenario.tuples * scenario.depth),
      senders(grants.data(), scenario.tuples, scenario.depth) {
    senders.start_at(scenario.sequence, scenario.epoch);
}

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
      cancelled_(other.cancelled_),
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
    if (!receivers_.actions().empty()) moves.push({Kind::kAct});
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
                note_removed();
                cancelled(id);
                return;
            case Core::Cancel::kLater:
                if (!is(Sabotage::kCancelAtOnce)) return;
                posted_.remove(id);
                note_removed();
                cancelled(id);
                return;
            case Core::Cancel::kNever:
                fail_books("a receive that waits is said to be taken");
                return;
        }
    }
}

}  // namespace tern
