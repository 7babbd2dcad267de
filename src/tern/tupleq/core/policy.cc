// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/core/policy.h"

#include <algorithm>

namespace tern {

TuplePolicy::TuplePolicy(const Limits& limits, uint32_t queues)
    : limits_(limits), tags_(kSets * kWays), queues_(queues) {}

bool TuplePolicy::worth(uint32_t peer, uint64_t tag, uint64_t length, bool expected) {
    ++now_;
    Tag& entry = find_or_replace(peer, tag);
    entry.seen = now_;
    entry.shared |= entry.peer != peer;
    if (entry.shared || !expected || !counts(length)) return false;
    const uint64_t needed = uint64_t{limits_.after} << entry.strikes;
    return ++entry.count >= needed;
}

void TuplePolicy::bound(uint16_t number, uint32_t peer, uint64_t tag) {
    queues_[number] = {tag, peer, now_, 0, 0, true, false};
    if (Tag* entry = find(tag)) entry->count = 0;
}

uint16_t TuplePolicy::victim(uint64_t tag) {
    // A tuple that gets no queue has to become hot again, so that the search is not repeated for
    // each of its messages.
    if (Tag* entry = find(tag)) entry->count = 0;
    const uint64_t idle = uint64_t{limits_.idle} * queues_.size();
    uint16_t victim = kNone;
    for (uint16_t i = 0; i < queues_.size(); ++i) {
        const Queue& queue = queues_[i];
        if (queue.leaving) return kNone;  // one will be free soon
        if (!queue.bound || now_ - queue.last < idle) continue;
        if (victim == kNone || queue.last < queues_[victim].last) victim = i;
    }
    if (victim == kNone) return kNone;
    queues_[victim].leaving = true;
    return victim;
}

void TuplePolicy::discourage(uint16_t number) {
    Tag& entry = find_or_replace(queues_[number].peer, queues_[number].tag);
    entry.seen = now_;
    entry.count = 0;
    entry.strikes = std::min<uint8_t>(entry.strikes + 1, kMostStrikes);
}

void TuplePolicy::freed(uint16_t number) {
    Queue& queue = queues_[number];
    if (queue.misses > queue.uses)
        discourage(number);
    else if (Tag* entry = find(queue.tag); entry != nullptr && queue.uses != 0)
        entry->strikes = 0;
    queue = {};
}

void TuplePolicy::gone(uint32_t peer) {
    for (Tag& tag : tags_)
        if (tag.peer == peer && !tag.shared) tag = {};
    for (Queue& queue : queues_)
        if (queue.peer == peer) queue.uses = queue.misses = 0;
}

TuplePolicy::Tag* TuplePolicy::find(uint64_t tag) {
    Tag* const first = set(tag);
    Tag* const entry = std::find_if(
        first, first + kWays, [tag](const Tag& each) { return each.seen != 0 && each.tag == tag; });
    return entry == first + kWays ? nullptr : entry;
}

TuplePolicy::Tag& TuplePolicy::find_or_replace(uint32_t peer, uint64_t tag) {
    if (Tag* entry = find(tag)) return *entry;
    Tag* const first = set(tag);
    Tag& oldest = *std::min_element(first, first + kWays, [](const Tag& one, const Tag& other) {
        return one.seen < other.seen;
    });
    oldest = {tag, peer, 0, 0, 0, false};
    return oldest;
}

}  // namespace tern
