// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/binder.h"

#include <algorithm>

#include "tern/base/trace.h"
#include "tern/tupleq/xrc/link_table.h"

namespace tern {

bool TupleBinder::judge(const Channel& channel, uint64_t tag, const TupleMark* mark,
                        uint64_t length, const DirectMatcher::Arrival& arrival) {
    using Verdict = DirectMatcher::Arrival::Verdict;
    const bool matched = arrival.verdict == Verdict::kMatched;
    if (mark != nullptr) {
        if (matched) policy_.missed(mark->tuple);
        return false;
    }
    const uint64_t key = tag & table_.key_mask();
    // The peer may be a second sender of the key.
    if (arrival.verdict == Verdict::kHold) (void)policy_.worth(peer_number(channel), key, 0, false);
    // Most messages are short, so this saves a look-up.
    if (!matched || !policy_.counts(length) || !channel.up()) return false;
    // The receive was posted in time, and could have been granted.
    const bool could =
        arrival.receive != 0 && table_.is_keyed(TupleTable::receive(arrival.receive));
    if (!policy_.worth(peer_number(channel), key, length, could)) return false;
    if (bind(channel, tag)) return true;
    const uint16_t victim = policy_.victim(key);
    if (victim == TuplePolicy::kNone) return false;
    TERN_DEBUG("tuple %u: makes room for another", victim);
    matcher_.unbind(victim);
    return false;
}

bool TupleBinder::bind(const Channel& channel, uint64_t tag) {
    if (!matcher_.bind(peer_number(channel), tag)) return false;
    const uint16_t number = matcher_.tuples().lookup(tag);
    TERN_ASSERT(!taken_[number]);
    policy_.bound(number, peer_number(channel), tag & table_.key_mask());
    taken_[number] = true;
    queues_most_ = std::max<uint64_t>(queues_most_, queues_in_use());
    return true;
}

void TupleBinder::refused(uint16_t number) {
    policy_.discourage(number);
    free_if_unused(number);
}

void TupleBinder::free_if_unused(uint16_t number) {
    if (!taken_[number] || matcher_.queue(number).state() != TupleReceiver::State::kFree) return;
    taken_[number] = false;
    policy_.freed(number);
}

uint32_t TupleBinder::queues_in_use() const {
    uint32_t count = 0;
    for (uint16_t i = 0; i < taken_.size(); ++i)
        count += matcher_.queue(i).state() != TupleReceiver::State::kFree;
    return count;
}

}  // namespace tern
