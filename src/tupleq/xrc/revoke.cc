// SPDX-License-Identifier: BSD-3-Clause

// Takes grants back without the sender's processor: writes zero over them, and then reads the
// number that the sender has announced. Control path.

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/engine_send.h"
#include "tupleq/xrc/tupleq.h"

namespace tern {

namespace {

uint64_t now_ns() {
    return static_cast<uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

// False: there is no room now. Takes the newest grants back first, because the sender may use some
// of the oldest while this waits for room. The device executes a read after earlier writes.
bool TupleQ::revoke(TupleAction& action) {
    Peer* peer = find_peer(action.peer);
    if (peer == nullptr || !peer->channel->up()) return true;  // the channel's end decides
    Channel& channel = *peer->channel;
    const auto has_room = [&] { return channel.sends.takes_data(); };
    const auto at = [&](uint32_t slot) { return peer->grants + uint64_t{slot} * sizeof(uint64_t); };
    const TupleReceiver& queue = matcher_.queue(action.tuple);
    const auto last = static_cast<uint16_t>(queue.known() + queue.granted());
    for (; action.place < queue.granted(); ++action.place) {
        if (!has_room()) return false;
        const auto sequence = static_cast<uint16_t>(last - action.place);
        (void)engine_.write_word(channel, 0, at(matcher_.slot(action.tuple, sequence)),
                                 peer->grants_rkey);
    }
    if (!has_room()) return false;
    uint64_t& word = read_word(action.tuple);
    __atomic_store_n(&word, kNothingRead, __ATOMIC_RELAXED);
    ibv_sge piece{.addr = address_of(&word), .length = sizeof(word), .lkey = grants_.lkey()};
    // The read is not the user's, so no fence waits for it.
    if (engine_.read(
            channel, {&piece, 1}, at(matcher_.announced_slot(action.tuple)), peer->grants_rkey,
            make_cookie(CookieKind::kRevocation, uintptr_t{action.count} << 19 |
                                                     uintptr_t{action.tuple} << 3)) == Status::kOk)
        --channel.replies;
    return true;
}

// The read is complete. If it failed, the channel has failed too, and the channel's end decides.
void TupleQ::done(void* cookie, Status status) {
    if (status != Status::kOk) return;
    const auto bits = reinterpret_cast<uintptr_t>(cookie);
    const auto number = static_cast<uint16_t>(bits >> 3);
    revoked(number, static_cast<uint32_t>(bits >> 19), read_word(number));
}

void TupleQ::revoked(uint16_t number, uint32_t count, uint64_t announced) {
    matcher_.revoked(number, count, static_cast<uint16_t>(announced));
    lend_void_entries(number);
    if (matcher_.undecided(number)) remember_undecided(number);
    look_whether_free(number);
    act();
}

void TupleQ::remember_undecided(uint16_t number) {
    for (const Undecided& each : undecided_)
        if (each.number == number) return;
    undecided_.push_back({number, now_ns()});
}

// The sender has announced a message that has not come. The message is on its way, or was
// withdrawn, or the sender was stopped between announcing and sending, or violates the protocol.
// After kAnnouncedLimit the queue is destroyed.
void TupleQ::ask_again() {
    const uint64_t now = now_ns();
    std::erase_if(undecided_, [this, now](const Undecided& each) {
        if (!matcher_.undecided(each.number)) return true;
        if (now - each.since < kAnnouncedLimit) {
            matcher_.ask_again(each.number);
            return false;
        }
        queues_->stopper(each.number).stop();
        fail_tuple(each.number, Status::kTimedOut,
                   "a direct message has been announced and does not come, and its receive is to "
                   "be canceled");
        return true;
    });
    act();
}

bool TupleQ::cancel_now(TupleReceive& receive) {
    const uint16_t number = matcher_.lookup(receive.tag);
    if (number == TupleIndex::kNone || acting_) return false;
    const uint64_t limit = now_ns() + kReadLimit;
    // Waits while the read of the announced number is posted and may complete.
    while (matcher_.revoking(number) && find_peer(matcher_.peer(number)) != nullptr &&
           find_peer(matcher_.peer(number))->later.empty() && now_ns() < limit) {
        const uint64_t announced = __atomic_load_n(&read_word(number), __ATOMIC_ACQUIRE);
        if (announced != kNothingRead)
            revoked(number, matcher_.revoke_count(number), announced);
        else
            engine_.keep_completion();
    }
    return !receive.posted;
}

bool TupleQ::stop_sending() {
    for (Route& route : routes_) route.link = nullptr;
    return std::exchange(sends_, false);
}

}  // namespace tern
