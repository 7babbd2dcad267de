// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/actor.h"

#include <utility>

#include "tern/base/trace.h"
#include "tern/tupleq/xrc/frames.h"

namespace tern {

TupleActor::TupleActor(const Parts& parts)
    : engine_(parts.engine),
      owner_(parts.owner),
      domain_(parts.domain),
      completions_(parts.completions),
      links_(parts.links),
      queues_(parts.queues),
      memory_(parts.memory),
      matcher_(parts.matcher),
      binder_(parts.binder),
      drains_(parts.links, parts.queues),
      revoker_(parts.engine, parts.grants) {}

// Functions called from here may call act() again.
void TupleActor::perform_all() {
    acting_ = true;
    TupleActions& actions = matcher_.actions();
    while (!actions.empty()) {
        TupleAction action = std::as_const(actions).front();
        actions.pop();
        if (action.kind == TupleAction::Kind::kGrant) memory_.place(action);
        perform_or_defer(action);
    }
    acting_ = false;
}

void TupleActor::perform_or_defer(TupleAction& action) {
    if (!TupleAction::is_ordered(action.kind)) return perform_local(action);
    Peer* const peer = peers_.find(action.peer);
    // The peer is gone: the core has asked for its queues to be discarded.
    if (peer == nullptr) return;
    if (peer->later.empty()) {
        if (perform_ordered(*peer, action)) return;
        waiting_.push_back(peer);
    }
    peer->later.push() = action;
}

unsigned TupleActor::retry_deferred() {
    unsigned count = 0;
    acting_ = true;
    for (size_t i = 0; i < waiting_.size();) {
        Peer& peer = *waiting_[i];
        for (; !peer.later.empty() && perform_ordered(peer, peer.later.front()); ++count)
            peer.later.pop();
        if (peer.later.empty()) {
            waiting_[i] = waiting_.back();
            waiting_.pop_back();
        } else {
            ++i;
        }
    }
    acting_ = false;
    act();
    return count;
}

bool TupleActor::is_up_to_date(uint32_t peer) const {
    const Peer* const found = peers_.find(peer);
    return found != nullptr && found->later.empty();
}

bool TupleActor::learn_words(Channel& channel, const WireBound& frame) {
    if (frame.sender == WireBound::kRefused) return true;
    PeerWords& words = peers_.of(channel).words;
    if (words.address != 0 && (words.address != frame.address || words.rkey != frame.rkey))
        return false;
    words = {frame.address, frame.rkey};
    return true;
}

void TupleActor::erase_peer(const Channel& channel) {
    Peer* const peer = peers_.find(channel);
    if (peer == nullptr) return;
    std::erase(waiting_, peer);
    peers_.erase(channel);
}

void TupleActor::fail_tuple(uint16_t number, Status status, const std::string& why) {
    if (matcher_.queue(number).state() == TupleReceiver::State::kFree) return;
    Peer* const peer = peers_.find(matcher_.tuple(number).peer);
    if (peer != nullptr) engine_.fail(*peer->channel, status, why);
}

// False: there is no room now. Nothing is sent on a channel that is not up: its end decides.
bool TupleActor::perform_ordered(Peer& peer, TupleAction& action) {
    const bool up = peer.channel->up();
    switch (action.kind) {
        case TupleAction::Kind::kBind:
            return !up || announce(peer, action);
        case TupleAction::Kind::kClose:
            return !up || send_close(peer, action);
        case TupleAction::Kind::kRevoke:
            return !up || revoker_.post(*peer.channel, peer.words, matcher_, action);
        case TupleAction::Kind::kGrant:
            return put_and_grant(peer, action);
        case TupleAction::Kind::kDrain:
            return drain(action);
        default:
            TERN_ASSERT(false);
            return true;
    }
}

// The actions that need no room.
void TupleActor::perform_local(const TupleAction& action) {
    switch (action.kind) {
        case TupleAction::Kind::kCanceled:
            return owner_.canceled(TupleTable::receive(action.receive));
        case TupleAction::Kind::kFailed:
            return owner_.received(TupleTable::receive(action.receive),
                                   matcher_.tuple(action.tuple).tag, 0, Status::kConnectionReset);
        case TupleAction::Kind::kRetry:
            return owner_.retry(action.peer);
        case TupleAction::Kind::kDiscard:
            return discard(action.tuple);
        default:
            TERN_ASSERT(false);
    }
}

bool TupleActor::announce(Peer& peer, const TupleAction& action) {
    if (queues_.stopped(action.tuple)) queues_.destroy(action.tuple);
    const bool was_open = queues_.is_open(action.tuple);
    // A new queue may get the number of a destroyed one to which drains are still on their way.
    if (!was_open && drains_.any_astray()) return false;
    if (!links_.open_loopback() || !queues_.open(action.tuple)) {
        TERN_DEBUG("tuple %u: the device refuses a queue", action.tuple);
        (void)matcher_.bound(action.peer, {action.tuple, TupleBound::kRefused, 0});
        binder_.refused(action.tuple);
        return true;
    }
    if (!was_open) completions_.add_source();
    queues_.renew_nonce(action.tuple);
    return send_frame(engine_, *peer.channel, TupleControlId::kBind,
                      WireBind{.tag = action.bind.tag,
                               .mask = action.bind.mask,
                               .node = domain_.id(),
                               .queue = queues_.number(action.tuple),
                               .tuple = action.bind.tuple,
                               .depth = action.bind.depth,
                               .nonce = queues_.nonce(action.tuple)});
}

bool TupleActor::send_close(Peer& peer, const TupleAction& action) {
    return send_frame(engine_, *peer.channel, TupleControlId::kClose,
                      WireClose{.sender = action.close.sender,
                                .flags = action.close.unbind ? WireClose::kUnbind : uint16_t{0}});
}

bool TupleActor::put_and_grant(Peer& peer, const TupleAction& action) {
    const bool up = peer.channel->up();
    if (up && !peer.channel->sends.takes_data()) return false;
    ibv_sge piece = memory_.piece(action.tuple, action.place);
    if (!queues_.post(action.tuple, piece)) [[unlikely]] {
        fail_tuple(action.tuple, Status::kDevice, "the device refuses a receive");
        return true;
    }
    if (up && !queues_.stopped(action.tuple))
        (void)engine_.one_sided()->write_word(*peer.channel, action.grant.raw(),
                                              peer.words.at(action.slot), peer.words.rkey);
    return true;
}

// False: there is no room now. A stopped queue is not drained: it is destroyed.
bool TupleActor::drain(TupleAction& action) {
    if (queues_.stopped(action.tuple)) return true;
    switch (drains_.send(action)) {
        case Drains::Result::kNoRoom:
            return false;
        case Drains::Result::kFailed:
            fail_tuple(action.tuple, Status::kDevice, "a queue cannot be drained");
            return true;
        case Drains::Result::kDone:
            break;
    }
    return true;
}

void TupleActor::on_drain_sent(const Drains::Outcome& outcome, ibv_wc_status status) {
    if (outcome.fate == Drains::Fate::kNothing) return;
    if (outcome.fate == Drains::Fate::kLost)
        return fail_tuple(outcome.queue, Status::kDevice,
                          std::string("a queue cannot be drained: ") + ibv_wc_status_str(status));
    TupleAction action{.kind = TupleAction::Kind::kDrain,
                       .tuple = outcome.queue,
                       .peer = matcher_.tuple(outcome.queue).peer,
                       .count = 1};
    perform_or_defer(action);
}

// Destroys the queue with its entries: a message that comes later finds no queue.
void TupleActor::discard(uint16_t number) {
    TERN_DEBUG("tuple %u: its queue is destroyed", number);
    queues_.destroy(number);
    memory_.free_all(number);
    matcher_.replaced(number);
    binder_.free_if_unused(number);
}

}  // namespace tern
