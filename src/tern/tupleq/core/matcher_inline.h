// SPDX-License-Identifier: BSD-3-Clause
// The member functions of TupleMatcher; include matcher.h.
#pragma once

#include "tern/tupleq/core/matcher.h"

namespace tern {

// Grants the receives of the key, in order, up to the first that is behind a wildcard. `late`: the
// occasion is a message that has come; see GrantWindow.
template <PostedTable Posted>
void TupleMatcher<Posted>::refill(Tuple& tuple, bool late) {
    TupleReceiver& queue = tuple.queue;
    if (tuple.revoking || tuple.unbinding || !queue.may_grant(late) ||
        (!held_.empty() && held_.find(tuple.peer) != nullptr))
        return;
    ReceiveHandle receive = queue.granted() == 0
                                ? posted_->first(tuple.tag)
                                : posted_->next(queue.entry(queue.live() - 1).receive);
    while (receive != 0 && queue.may_grant(late)) {
        if (posted_->behind_wildcard(receive)) {
            any_blocked_ = tuple.blocked = true;
            return;
        }
        if (!posted_->prepare(receive)) return;
        TupleAction& action = act(TupleAction::Kind::kGrant, tuple);
        action.place = queue.place(queue.live());
        action.receive = receive;
        action.grant = queue.grant(receive, posted_->capacity(receive), late);
        action.slot = tuple.slot(action.grant.sequence());
        ++counters_.grants;
        receive = posted_->next(receive);
    }
}

// Call after a wildcard has been matched or canceled.
template <PostedTable Posted>
void TupleMatcher<Posted>::refill_blocked() {
    if (!any_blocked_) return;
    any_blocked_ = false;
    for (Tuple& tuple : tuples_)
        if (tuple.blocked) {
            tuple.blocked = false;
            refill(tuple);
        }
}

template <PostedTable Posted>
auto TupleMatcher<Posted>::cancel(ReceiveHandle receive, uint64_t tag, bool keyed) -> Cancel {
    Tuple* tuple = keyed ? tuples_.find(tag) : nullptr;
    if (tuple != nullptr) {
        TupleReceiver& queue = tuple->queue;
        for (uint32_t i = 0; i < queue.live(); ++i) {
            if (queue.entry(i).receive != receive) continue;
            if (i < queue.claimed()) return Cancel::kNever;
            queue.entry(i).cancel = true;
            revoke(*tuple);
            return Cancel::kLater;
        }
    }
    posted_->remove(receive);
    if (tuple != nullptr) refill(*tuple);
    if (!keyed) refill_blocked();
    return Cancel::kDone;
}

// Messages are matched in the order in which they were sent. A mark takes effect at once even if
// its message is held, because answers of the peer may depend on the mark.
template <PostedTable Posted>
auto TupleMatcher<Posted>::ordinary(uint32_t peer, uint64_t tag, const TupleMark* mark,
                                    uint64_t length) -> Arrival {
    Tuple* tuple = tuples_.find(tag);
    const bool own = tuple != nullptr && tuple->peer == peer;
    const bool numbered = own && tuple->queue.numbered();
    if (numbered != (mark != nullptr)) return {Verdict::kBroken};
    if (mark != nullptr) {
        const auto before = static_cast<uint16_t>(mark->sequence - 1);
        if (mark->tuple != tuples_.number(*tuple) || !epoch_ended(*tuple, before, true))
            return {Verdict::kBroken};
        tuple->queue.passed(length);
        ++counters_.ordinary;
        // Many messages in a row with another tag of the same key: the tuple has the wrong tag.
        tuple->wrong_tags = tag != tuple->tag ? tuple->wrong_tags + 1 : 0;
        if (tuple->wrong_tags == kMostWrongTags) leave(*tuple);
    }
    const bool behind = !held_.empty() && held_.find(peer) != nullptr;
    const Arrival arrival = behind ? Arrival{Verdict::kHold} : match(peer, tag);
    if (arrival.verdict == Verdict::kHold) {
        held_.add(peer);
        ++counters_.holds;
    }
    if (own) refill(*tuple, true);
    return arrival;
}

template <PostedTable Posted>
auto TupleMatcher<Posted>::retry(uint32_t peer, uint64_t tag) -> Arrival {
    HeldMessages::Held* const held = held_.find(peer);
    if (held == nullptr) return {Verdict::kBroken};
    const Arrival arrival = match(peer, tag);
    if (arrival.verdict == Verdict::kMatched && --held->messages == 0) drop_held(peer);
    return arrival;
}

template <PostedTable Posted>
void TupleMatcher<Posted>::drop_held(uint32_t peer) {
    HeldMessages::Held* const held = held_.find(peer);
    if (held == nullptr) return;
    held_.drop(*held);
    for (Tuple& tuple : tuples_)
        if (tuple.peer == peer) refill(tuple);
}

// A receive that is granted to one peer cannot take another peer's message until the grant is void.
// The key has two senders, so the tuple is unbound.
template <PostedTable Posted>
auto TupleMatcher<Posted>::match(uint32_t peer, uint64_t tag) -> Arrival {
    Tuple* tuple = tuples_.find(tag);
    if (tuple != nullptr && tuple->peer != peer) {
        leave(*tuple);
        if (tuple->queue.granted() != 0) {
            tuple->holds_others = true;
            return {Verdict::kHold};
        }
    }
    const TakenReceive taken = posted_->take(tag);
    if (taken.wildcard) refill_blocked();
    return {Verdict::kMatched, taken.receive};
}

template <PostedTable Posted>
auto TupleMatcher<Posted>::direct(uint16_t number) -> Placed {
    Placed direct;
    Tuple& tuple = tuples_[number];
    TupleReceiver::Entry entry;
    bool claimed = false;
    if (!tuple.queue.arrive(entry, direct.place, claimed)) return direct;
    direct.receive = entry.receive;
    if (!claimed) posted_->remove(entry.receive);
    ++counters_.direct;
    tuple.wrong_tags = 0;
    if (tuple.unbinding) [[unlikely]]
        on_grants_used(tuple);
    if (claimed || tuple.queue.void_entries() != 0) settle(tuple);
    refill(tuple, true);
    return direct;
}

template <PostedTable Posted>
bool TupleMatcher<Posted>::drained(uint16_t number, uint32_t& place) {
    Tuple& tuple = tuples_[number];
    if (!tuple.queue.drained(place)) return false;
    ++counters_.drains;
    settle(tuple);
    refill(tuple, true);
    return true;
}

template <PostedTable Posted>
bool TupleMatcher<Posted>::bind(uint32_t peer, uint64_t tag) {
    if (changing_key_ || tuples_.find(tag) != nullptr) return false;
    const uint64_t mask = posted_->key_mask();
    for (Tuple& tuple : tuples_) {
        if (tuple.queue.state() != State::kFree) continue;
        tuple.tag = tag;
        tuple.peer = peer;
        tuple.blocked = tuple.holds_others = tuple.unbinding = tuple.revoking = false;
        tuple.wrong_tags = 0;
        tuple.queue.bind(sequence_, epoch_);
        tuples_.insert(tuple, mask);
        act(TupleAction::Kind::kBind, tuple).bind = {tag, mask, tuples_.number(tuple),
                                                     static_cast<uint16_t>(tuple.queue.depth())};
        ++counters_.binds;
        return true;
    }
    return false;
}

template <PostedTable Posted>
bool TupleMatcher<Posted>::bound(uint32_t peer, const TupleBound& answer) {
    Tuple* tuple = tuples_.of_peer(peer, answer.tuple);
    if (tuple == nullptr || tuple->queue.state() != State::kBinding) return false;
    if (answer.sender == TupleBound::kRefused) {
        free_queue(*tuple);
        return true;
    }
    tuple->sender = answer.sender;
    tuple->first_slot = answer.slot;
    tuple->queue.bound();
    if (tuple->unbinding) close(*tuple);
    refill(*tuple);
    return true;
}

template <PostedTable Posted>
bool TupleMatcher<Posted>::closed(uint32_t peer, const TupleClosed& answer) {
    Tuple* tuple = tuples_.of_peer(peer, answer.tuple);
    if (tuple == nullptr) return false;
    TupleReceiver& queue = tuple->queue;
    if (queue.state() != State::kUnbinding || !answer.unbind) return false;
    queue.closed();
    if (!epoch_ended(*tuple, answer.sequence, false)) return false;
    return true;
}

template <PostedTable Posted>
void TupleMatcher<Posted>::unbind(uint16_t number) {
    leave(tuples_[number]);
}

// Takes grants back before it closes, because after Close the tuple's words may belong to another
// receiver.
template <PostedTable Posted>
void TupleMatcher<Posted>::leave(Tuple& tuple) {
    if (tuple.unbinding) return;
    tuple.unbinding = true;
    if (tuple.queue.granted() != 0) revoke(tuple);
    on_grants_used(tuple);
}

// Some grants of the tuple have been used or taken back, perhaps the last. Then its receives are
// decided: held messages can be matched, and the tuple closed. Before, nothing is asked of the
// sender's process, so that nobody waits for it.
template <PostedTable Posted>
void TupleMatcher<Posted>::on_grants_used(Tuple& tuple) {
    if (tuple.queue.granted() != 0) return;
    if (tuple.holds_others) release_held(tuple);
    if (tuple.unbinding && !tuple.revoking && tuple.queue.state() == State::kOpen) close(tuple);
}

template <PostedTable Posted>
void TupleMatcher<Posted>::close(Tuple& tuple) {
    tuple.queue.close();
    ++counters_.unbinds;
    act(TupleAction::Kind::kClose, tuple).close = {tuple.sender, true};
}

template <PostedTable Posted>
void TupleMatcher<Posted>::revoke(Tuple& tuple) {
    if (tuple.revoking || tuple.queue.state() != State::kOpen) return;
    tuple.revoking = true;
    act(TupleAction::Kind::kRevoke, tuple).count = ++tuple.revoke_count;
}

template <PostedTable Posted>
void TupleMatcher<Posted>::revoked(uint16_t number, uint32_t count, uint16_t sent) {
    Tuple& tuple = tuples_[number];
    TupleReceiver& queue = tuple.queue;
    // The number may belong to another tuple by now.
    if (!tuple.revoking || tuple.revoke_count != count || !queue.numbered()) return;
    tuple.revoking = false;
    const TupleReceiver::Ended ended = queue.revoke(sent);
    for (uint32_t i = ended.first_void; i < ended.end; ++i) {
        const TupleReceiver::Entry entry = queue.entry(i);
        if (!entry.cancel) continue;
        posted_->remove(entry.receive);
        act(TupleAction::Kind::kCanceled, tuple).receive = entry.receive;
    }
    counters_.void_grants += ended.end - ended.first_void;
    on_grants_used(tuple);
    settle(tuple);
    refill(tuple);
}

template <PostedTable Posted>
bool TupleMatcher<Posted>::undecided(uint16_t number) const {
    const Tuple& tuple = tuples_[number];
    return tuple.queue.granted() != 0 && (tuple.unbinding || awaited(number));
}

template <PostedTable Posted>
bool TupleMatcher<Posted>::awaited(uint16_t number) const {
    const TupleReceiver& queue = tuples_[number].queue;
    if (queue.granted() != 0 && tuples_[number].holds_others) return true;
    for (uint32_t i = queue.claimed(); i < queue.live(); ++i)
        if (queue.entry(i).cancel) return true;
    return false;
}

template <PostedTable Posted>
bool TupleMatcher<Posted>::epoch_ended(Tuple& tuple, uint16_t sequence, bool ordinary) {
    TupleReceiver& queue = tuple.queue;
    const auto ended = queue.end_epoch(sequence, ordinary);
    if (!ended) return false;
    for (uint32_t i = ended->begin; i < ended->end; ++i) {
        const TupleReceiver::Entry entry = queue.entry(i);
        if (i < ended->first_void || entry.cancel) posted_->remove(entry.receive);
        if (i >= ended->first_void && entry.cancel)
            act(TupleAction::Kind::kCanceled, tuple).receive = entry.receive;
    }
    counters_.epochs += ended->end != ended->first_void;
    counters_.void_grants += ended->end - ended->first_void;
    on_grants_used(tuple);
    settle(tuple);
    return true;
}

// The granted receives are decided, so the held messages can be matched.
template <PostedTable Posted>
void TupleMatcher<Posted>::release_held(Tuple& tuple) {
    tuple.holds_others = false;
    for (const HeldMessages::Held& held : held_)
        act(TupleAction::Kind::kRetry, tuple).peer = held.peer;
}

// Call when entries have gone or become void. Drains; frees the queue of an unbound tuple.
template <PostedTable Posted>
void TupleMatcher<Posted>::settle(Tuple& tuple) {
    if (const uint32_t count = tuple.queue.begin_drain())
        act(TupleAction::Kind::kDrain, tuple).count = count;
    if (tuple.queue.state() == State::kUnbound && tuple.queue.empty()) free_queue(tuple);
}

template <PostedTable Posted>
void TupleMatcher<Posted>::free_queue(Tuple& tuple) {
    tuples_.erase(tuple);
    tuple.queue.reset();
    change_key_if_free();
}

template <PostedTable Posted>
void TupleMatcher<Posted>::change_key() {
    if (changing_key_) return;
    changing_key_ = true;
    for (Tuple& tuple : tuples_) leave(tuple);
    change_key_if_free();
}

template <PostedTable Posted>
void TupleMatcher<Posted>::change_key_if_free() {
    if (!changing_key_ || tuples_.any_bound()) return;
    changing_key_ = false;
    posted_->change_key();
}

template <PostedTable Posted>
void TupleMatcher<Posted>::peer_died(uint32_t peer) {
    Tuple* awaited = nullptr;
    for (Tuple& tuple : tuples_) {
        TupleReceiver& queue = tuple.queue;
        if (tuple.peer != peer || queue.state() == State::kFree || queue.state() == State::kBroken)
            continue;
        for (uint32_t i = 0; i < queue.live(); ++i) {
            const TupleReceiver::Entry entry = queue.entry(i);
            const bool lost = i < queue.claimed();
            if (!lost && !entry.cancel) continue;
            if (!lost) posted_->remove(entry.receive);
            act(lost ? TupleAction::Kind::kFailed : TupleAction::Kind::kCanceled, tuple).receive =
                entry.receive;
        }
        tuples_.erase(tuple);
        const bool unused = queue.state() == State::kBinding;
        queue.reset();
        if (!unused) {
            queue.broken();
            act(TupleAction::Kind::kDiscard, tuple);
            ++counters_.discards;
        }
        if (tuple.holds_others) awaited = &tuple;
    }
    if (awaited != nullptr) release_held(*awaited);
    change_key_if_free();
}

template <PostedTable Posted>
template <class Sink>
void TupleMatcher<Posted>::save(Sink&& sink) const {
    for (const Tuple& tuple : tuples_) {
        tuple.queue.save(sink);
        if (tuple.queue.state() == State::kFree) continue;
        sink(tuple.tag), sink(tuple.peer), sink(tuple.sender);
        sink(tuple.blocked), sink(tuple.holds_others), sink(tuple.unbinding), sink(tuple.revoking);
    }
    for (const HeldMessages::Held& held : held_) sink(held.peer), sink(held.messages);
    sink(changing_key_);
    actions_.save(sink);
}

}  // namespace tern
