// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/revoker.h"

#include "tern/base/trace.h"
#include "tern/engine/engine.h"

namespace tern {

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

}  // namespace tern
