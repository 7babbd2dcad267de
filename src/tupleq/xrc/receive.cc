// SPDX-License-Identifier: BSD-3-Clause

// The receiving side: puts receives into queues, and writes grants to senders.

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "engine/engine_send.h"
#include "tupleq/xrc/tupleq.h"

namespace tern {

bool TupleTable::prepare(ReceiveHandle of) {
    return tupleq_.prepare(receive(of));
}

void TupleTable::remove(ReceiveHandle of) {
    TuplePosted::remove(of);
    tupleq_.owner_.taken(receive(of));
}

// Pins the memory of a receive that is about to be granted, until the entry has left the queue.
bool TupleQ::prepare(const TupleReceive& receive) {
    if (!policy_.counts(receive.room)) return false;
    Prepared prepared;
    if (receive.room != 0) {
        prepared.pin = pins_.pin(receive.buffer, receive.room, kLocalWrite);
        if (prepared.pin != nullptr && receive.region.generation != 0) {
            prepared.use = regions_.find(receive.region);
            if (prepared.use == nullptr) release(prepared);
        }
        if (prepared.pin == nullptr) {
            ++counters_.unpinned;
            return false;
        }
        prepared.piece = {.addr = address_of(receive.buffer),
                          .length = static_cast<uint32_t>(receive.room),
                          .lkey = prepared.pin->lkey()};
    }
    prepared_.push_back(prepared);
    return true;
}

// Performs the core's actions in order. An action that finds no room waits, and with it all later
// ordered actions of the same peer. Functions called from here may call act() again.
void TupleQ::act() {
    if (acting_) return;
    acting_ = true;
    TupleActions& actions = matcher_.actions();
    while (!actions.empty()) {
        TupleAction action = std::as_const(actions).front();
        actions.pop();
        if (action.kind == TupleAction::Kind::kGrant) place_prepared(action);
        perform_or_keep(action);
    }
    acting_ = false;
}

void TupleQ::perform_or_keep(TupleAction& action) {
    Peer* peer = find_peer(action.peer);
    const bool behind =
        peer != nullptr && !peer->later.empty() && TupleAction::is_ordered(action.kind);
    if (!behind && perform(action)) return;
    if (peer->later.empty()) waiting_.push_back(peer);
    peer->later.push() = action;
}

unsigned TupleQ::catch_up() {
    unsigned count = 0;
    acting_ = true;
    for (size_t i = 0; i < waiting_.size();) {
        TupleActions& later = waiting_[i]->later;
        for (; !later.empty() && perform(later.front()); ++count) later.pop();
        if (later.empty()) {
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

// The place takes over the prepared memory. A thread that ends the memory's declaration from now on
// stops the queue.
void TupleQ::place_prepared(const TupleAction& action) {
    places_[action.tuple * settings_.depth + action.place] = prepared_[next_prepared_++];
    if (next_prepared_ == prepared_.size()) {
        prepared_.clear();
        next_prepared_ = 0;
    }
    lend(action.tuple, action.place, true);
}

// `writes`: a message may come for the entry. Otherwise a peer that keeps to the protocol does not
// write to the memory, so the queue is stopped only if the memory is invalidated.
void TupleQ::lend(uint16_t number, uint32_t place, bool writes) {
    RegionUse* const use = places_[number * settings_.depth + place].use;
    if (use == nullptr) return;
    Stoppable& queue = queues_->stopper(number);
    if (!use->enter()) [[unlikely]] {
        if (writes) queue.stop();
        return;
    }
    use->lend(queue, writes);
    use->leave();
}

void TupleQ::lend_void_entries(uint16_t number) {
    const TupleReceiver& queue = matcher_.queue(number);
    for (uint32_t i = 0; i < queue.void_entries(); ++i)
        lend(number, queue.place(queue.live() + i), false);
}

// Memory of a granted receive was deregistered. The queue is gone, so the peer must not send to it
// any more.
void TupleQ::fail_stopped() {
    for (uint16_t number = 0; number < settings_.tuples; ++number) {
        if (!queues_->stopped(number)) continue;
        ++counters_.stopped;
        if (matcher_.queue(number).state() == TupleReceiver::State::kFree)
            queues_->destroy(number);
        else
            fail_tuple(number, Status::kDevice,
                       "memory was deregistered while a receive was posted in it: cancel the "
                       "receive first");
    }
}

// False: there is no room now; only if the peer is still there.
bool TupleQ::perform(TupleAction& action) {
    Peer* peer = find_peer(action.peer);
    switch (action.kind) {
        case TupleAction::Kind::kBind:
            return announce(action);
        case TupleAction::Kind::kClose:
            return peer == nullptr || !peer->channel->up() ||
                   say(*peer->channel, TupleControlId::kClose,
                       WireClose{.sender = action.close.sender,
                                 .flags = action.close.unbind ? WireClose::kUnbind : uint16_t{0}});
        case TupleAction::Kind::kRevoke:
            return revoke(action);
        case TupleAction::Kind::kGrant:
            return put_and_grant(action);
        case TupleAction::Kind::kDrain:
            return post_drain(action);
        case TupleAction::Kind::kCanceled:
            owner_.canceled(TupleTable::receive(action.receive));
            return true;
        case TupleAction::Kind::kFailed:
            owner_.received(TupleTable::receive(action.receive), matcher_.tag(action.tuple), 0,
                            Status::kConnectionReset);
            return true;
        case TupleAction::Kind::kRetry:
            owner_.retry(action.peer);
            return true;
        case TupleAction::Kind::kDiscard:
            discard(action.tuple);
            return true;
    }
    return true;
}

bool TupleQ::announce(const TupleAction& action) {
    Peer* peer = find_peer(action.peer);
    if (peer == nullptr || !peer->channel->up()) return true;
    if (queues_->stopped(action.tuple)) queues_->destroy(action.tuple);
    const bool was_open = queues_->is_open(action.tuple);
    // A new queue may get the number of a destroyed one to which drains are still on their way.
    const auto astray = [this](const TupleSend& send) { return is_astray(send.cookie); };
    if (!was_open && loopback_ != nullptr && loopback_->any_under_way(astray)) return false;
    if (!open_loopback() || !queues_->open(action.tuple)) {
        (void)matcher_.bound(action.peer, {action.tuple, TupleBound::kRefused, 0});
        policy_.discourage(action.tuple);
        look_whether_free(action.tuple);
        return true;
    }
    active_ += !was_open;
    return say(*peer->channel, TupleControlId::kBind,
               WireBind{.tag = action.bind.tag,
                        .mask = action.bind.mask,
                        .node = domain_->id(),
                        .queue = queues_->number(action.tuple),
                        .tuple = action.bind.tuple,
                        .depth = action.bind.depth});
}

bool TupleQ::put_and_grant(const TupleAction& action) {
    Peer* peer = find_peer(action.peer);
    const bool told = peer != nullptr && peer->channel->up();
    if (told && !peer->channel->sends.takes_data()) return false;
    ibv_sge piece = places_[action.tuple * settings_.depth + action.place].piece;
    if (!queues_->post(action.tuple, piece)) [[unlikely]] {
        fail_tuple(action.tuple, Status::kDevice, "the device refuses a receive");
        return true;
    }
    if (told && !queues_->stopped(action.tuple))
        (void)engine_.write_word(*peer->channel, action.grant.raw(),
                                 peer->grants + uint64_t{action.slot} * sizeof(uint64_t),
                                 peer->grants_rkey);
    return true;
}

// An entry can only leave a queue by a message, so this process sends an empty one to itself. If
// the peer is gone, the queue is destroyed instead.
bool TupleQ::post_drain(TupleAction& action) {
    if (find_peer(action.peer) == nullptr || queues_->stopped(action.tuple)) return true;
    for (; action.count != 0; --action.count) {
        if (!open_loopback()) {
            fail_tuple(action.tuple, Status::kDevice, "a queue cannot be drained");
            return true;
        }
        if (loopback_->room() == 0) return false;
        ibv_send_wr request{};
        request.imm_data = htonl(kDrain);
        if (loopback_->post(request, queues_->number(action.tuple),
                            {.cookie = drain_cookie(action.tuple)}) != 0) {
            fail_tuple(action.tuple, Status::kDevice, "a queue cannot be drained");
            return true;
        }
    }
    return true;
}

// True if the drain's queue is gone; another may have taken its place.
bool TupleQ::is_astray(const void* cookie) const {
    const uint16_t number = tuple_of_drain(cookie);
    return cookie != drain_cookie(number) || queues_->stopped(number);
}

// Destroys the queue with its entries: a message that comes later finds no queue.
void TupleQ::discard(uint16_t number) {
    queues_->destroy(number);
    for (uint32_t place = 0; place < settings_.depth; ++place) free_place(number, place);
    matcher_.replaced(number);
    look_whether_free(number);
}

void TupleQ::look_whether_free(uint16_t number) {
    if (!taken_[number] || matcher_.queue(number).state() != TupleReceiver::State::kFree) return;
    taken_[number] = false;
    policy_.freed(number);
}

void TupleQ::release(Prepared& prepared) {
    if (prepared.pin != nullptr) pins_.release(prepared.pin);
    if (prepared.use != nullptr) regions_.release(prepared.use);
    prepared = {};
}

void TupleQ::fail_tuple(uint16_t number, Status status, const std::string& why) {
    if (matcher_.queue(number).state() == TupleReceiver::State::kFree) return;
    Peer* peer = find_peer(matcher_.peer(number));
    if (peer != nullptr) engine_.fail(*peer->channel, status, why);
}

// The device does not say who sent the message: any process of this user with a link to this node
// can. In any case the tuple is lost, and with it the order of its peer's messages.
void TupleQ::spoilt(uint16_t number, const std::string& what) {
    queues_->spoil(number);
    fail_tuple(number, Status::kProtocol,
               what +
                   ": the peer, or another process of this user, does not keep to the protocol; "
                   "see that all run the same version, or set UCX_TERN_TM_TUPLES=0");
}

// A receive of a queue is complete: by a message, or by a drain.
void TupleQ::arrived(const ibv_wc& completion) {
    const auto number = static_cast<uint16_t>(XrcQueues::index_of(completion.wr_id));
    if (XrcQueues::generation_of(completion.wr_id) != queues_->generation(number) ||
        queues_->spoilt(number))
        return;
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
        return spoilt(number, std::string("a direct message cannot be placed: ") +
                                  ibv_wc_status_str(completion.status));
    const bool named = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    const uint32_t name = ntohl(completion.imm_data);
    if (named && name == kDrain) {
        uint32_t place = 0;
        if (!matcher_.drained(number, place)) [[unlikely]]
            return spoilt(number, "a queue is drained that need not be");
        free_place(number, place);
    } else {
        const TupleReceiver& queue = matcher_.queue(number);
        if (!named || queue.live() == 0 || name != name_of(number, queue.entry(0).sequence))
            [[unlikely]]
            return spoilt(number, "a direct message is not the one that a receive was granted to");
        const uint64_t tag = matcher_.tag(number);
        const auto message = matcher_.direct(number);
        free_place(number, message.place);
        counters_.received_bytes += completion.byte_len;
        policy_.used(number);
        owner_.received(TupleTable::receive(message.receive), tag, completion.byte_len,
                        Status::kOk);
    }
    look_whether_free(number);
    act();
}

bool TupleQ::bound(Channel& channel, const WireBound& frame) {
    Peer& peer = peer_of(channel);
    if (frame.sender != WireBound::kRefused) {
        if (frame.address == 0 || frame.address % sizeof(uint64_t) != 0) return false;
        if (peer.grants != 0 && (peer.grants != frame.address || peer.grants_rkey != frame.rkey))
            return false;
        peer.grants = frame.address;
        peer.grants_rkey = frame.rkey;
    }
    const bool good = matcher_.bound(number_of(channel), {frame.tuple, frame.sender, frame.slot});
    if (good && frame.sender == WireBound::kRefused) {
        policy_.discourage(frame.tuple);
        look_whether_free(frame.tuple);
    }
    act();
    return good;
}

TupleQ::Cancel TupleQ::cancel(TupleReceive& receive) {
    const Cancel result =
        matcher_.cancel(TupleTable::handle(&receive), receive.tag, table_.is_keyed(receive));
    // A tuple that is being unbound is not read again, so ask_again() has to watch the time limit.
    if (result == Cancel::kLater && !matcher_.revoking(matcher_.lookup(receive.tag)))
        remember_undecided(matcher_.lookup(receive.tag));
    act();
    return result;
}

TupleQ::Arrival TupleQ::ordinary(Channel& channel, uint64_t tag, const TupleMark* mark,
                                 uint64_t length) {
    const Arrival arrival = matcher_.ordinary(number_of(channel), tag, mark, length);
    if (mark != nullptr && arrival.verdict != Arrival::Verdict::kBroken)
        lend_void_entries(mark->tuple);
    judge(channel, tag, mark, length, arrival);
    return arrival;
}

// Queues become free at once, or when the senders of their tuples have answered.
void TupleQ::change_key() {
    matcher_.change_key();
    act();
}

// Binds the key of this message if it is worth a queue.
void TupleQ::judge(Channel& channel, uint64_t tag, const TupleMark* mark, uint64_t length,
                   const Arrival& arrival) {
    const bool matched = arrival.verdict == Arrival::Verdict::kMatched;
    if (mark != nullptr) {
        if (matched) policy_.missed(mark->tuple);
        return;
    }
    const uint64_t key = tag & table_.key_mask();
    // Tells the policy of what may be a second sender of the key.
    if (arrival.verdict == Arrival::Verdict::kHold)
        (void)policy_.worth(number_of(channel), key, 0, false);
    // Most messages are short, so this saves a look-up.
    if (!matched || !policy_.counts(length) || !channel.up()) return;
    // The receive was posted in time, and could have been granted.
    const bool could =
        arrival.receive != 0 && table_.is_keyed(TupleTable::receive(arrival.receive));
    if (!policy_.worth(number_of(channel), key, length, could) || begin(channel, tag)) return;
    const uint16_t victim = policy_.victim(key);
    if (victim != TuplePolicy::kNone) matcher_.unbind(victim);
}

TupleQ::Arrival TupleQ::retry(uint32_t peer, uint64_t tag) {
    const Arrival arrival = matcher_.retry(peer, tag);
    act();
    return arrival;
}

bool TupleQ::bind(Channel& channel, uint64_t tag) {
    if (!begin(channel, tag)) return false;
    act();
    return true;
}

bool TupleQ::begin(Channel& channel, uint64_t tag) {
    (void)peer_of(channel);
    if (!matcher_.bind(number_of(channel), tag)) return false;
    const uint16_t number = matcher_.lookup(tag);
    policy_.bound(number, number_of(channel), tag & table_.key_mask());
    taken_[number] = true;
    counters_.queues_most = std::max<uint64_t>(counters_.queues_most, queues_in_use());
    return true;
}

void TupleQ::unbind(uint64_t tag) {
    const uint16_t number = matcher_.lookup(tag);
    if (number != TupleIndex::kNone) matcher_.unbind(number);
    act();
}

}  // namespace tern
