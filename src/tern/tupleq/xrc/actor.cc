// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/actor.h"

#include <arpa/inet.h>

#include <utility>

#include "tern/base/trace.h"
#include "tern/engine/engine.h"
#include "tern/tupleq/xrc/messages.h"

namespace tern {

namespace {

// The other end has answered that the send was not executed; then no later send was.
bool is_refused(ibv_wc_status status) {
    return status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_ACCESS_ERR ||
           status == IBV_WC_REM_OP_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR;
}

}  // namespace

// Takes the newest grants back first, because the sender may use some of the oldest while this
// waits for room. The device executes a read after earlier writes.
bool Revoker::post(Channel& channel, const PeerWords& words, const DirectMatcher& matcher,
                   TupleAction& action) {
    const auto has_room = [&] { return channel.sends.takes_data(); };
    const ReceivedTuple& tuple = matcher.tuple(action.tuple);
    const TupleReceiver& queue = tuple.queue;
    const auto last = static_cast<uint16_t>(queue.known() + queue.granted());
    for (; action.place < queue.granted(); ++action.place) {
        if (!has_room()) return false;
        const auto sequence = static_cast<uint16_t>(last - action.place);
        (void)engine_.one_sided()->write_word(channel, 0, words.at(tuple.slot(sequence)),
                                              words.rkey);
    }
    if (!has_room()) return false;
    uint64_t& word = memory_.read_word(action.tuple);
    __atomic_store_n(&word, kNothingRead, __ATOMIC_RELAXED);
    ibv_sge piece{.addr = address_of(&word), .length = sizeof(word), .lkey = memory_.lkey()};
    TERN_TRACE("tuple %u: takes %u grants back, for the %u. time", action.tuple, action.place,
               action.count);
    // The read is not the user's, so no fence waits for it.
    if (engine_.one_sided()->read(channel, {&piece, 1}, words.at(tuple.announced_slot()),
                                  words.rkey, cookie_of(action)) == Status::kOk)
        --channel.replies;
    return true;
}

Drains::Result Drains::send(TupleAction& action) {
    for (; action.count != 0; --action.count) {
        if (!links_.open_loopback()) return Result::kFailed;
        XrcLink& link = *links_.loopback();
        if (link.room() == 0) return Result::kNoRoom;
        ibv_send_wr request{};
        request.imm_data = htonl(to_immediate(queues_.nonce(action.tuple), kDrainName));
        if (link.post(request, queues_.number(action.tuple), {.cookie = cookie_of(action.tuple)}) !=
            0)
            return Result::kFailed;
    }
    return Result::kDone;
}

// A drain whose queue is gone breaks the loop-back link, which is no error. Drains of other queues
// behind it are sent again over a new link.
Drains::Outcome Drains::on_sent(XrcLink& link, const void* cookie, ibv_wc_status status) {
    if (status == IBV_WC_SUCCESS) return {};
    const bool first = link.state != XrcLink::State::kOver;
    if (first) link.in_doubt = !is_refused(status);
    const bool again = !first && !link.in_doubt;
    links_.end(link);
    if (is_astray(cookie)) return {};
    if (again) return {Fate::kAgain, queue_of(cookie)};
    links_.count_failure(first, status);
    return {Fate::kLost, queue_of(cookie)};
}

bool Drains::is_astray(const void* cookie) const {
    const uint16_t queue = queue_of(cookie);
    return cookie != cookie_of(queue) || queues_.stopped(queue);
}

bool Drains::any_astray() const {
    const XrcLink* const link = links_.loopback();
    return link != nullptr &&
           link->any_under_way([this](const TupleSend& send) { return is_astray(send.cookie); });
}

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
