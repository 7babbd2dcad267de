// SPDX-License-Identifier: BSD-3-Clause
#include "matching/posted_receives.h"

#include <algorithm>
#include <bit>

namespace tern {

PostedReceives::PostedReceives(uint32_t expected) {
    const uint64_t buckets = std::bit_ceil(std::max(uint64_t{2} * expected, uint64_t{16}));
    buckets_ = std::make_unique<PostedReceive*[]>(buckets);
    shift_ = static_cast<unsigned>(64 - std::countr_zero(buckets));
}

// Tags differ in few bits, here and there: multiplication carries all of them to the top.
PostedReceive*& PostedReceives::bucket(uint64_t tag) const {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
    return buckets_[((tag ^ tag >> 32) * kGolden) >> shift_];
}

PostedReceive* PostedReceives::find(uint64_t tag) const {
    PostedReceive* receive = bucket(tag);
    while (receive != nullptr && receive->tag != tag) receive = receive->chain;
    return receive;
}

void PostedReceives::post(PostedReceive& receive, uint64_t tag, uint64_t mask) {
    receive = {.tag = tag, .mask = mask, .order = order_++, .posted = true};
    ++size_;
    if (mask != PostedReceive::kFullMask) {
        receive.previous = last_wildcard_;
        (last_wildcard_ != nullptr ? last_wildcard_->next : first_wildcard_) = &receive;
        last_wildcard_ = &receive;
        return;
    }
    PostedReceive* first = find(tag);
    if (first == nullptr) {
        PostedReceive*& head = bucket(tag);
        receive.next = receive.previous = &receive;
        receive.first = true;
        receive.chain = head;
        head = &receive;
        return;
    }
    receive.next = first;
    receive.previous = first->previous;
    receive.previous->next = &receive;
    first->previous = &receive;
}

const PostedReceive* PostedReceives::wildcard(uint64_t tag) const {
    const PostedReceive* receive = first_wildcard_;
    while (receive != nullptr && !receive->matches(tag)) receive = receive->next;
    return receive;
}

PostedReceive* PostedReceives::match(uint64_t tag) {
    PostedReceive* receive = find(tag);
    for (PostedReceive* other = first_wildcard_;
         other != nullptr && (receive == nullptr || other->order < receive->order);
         other = other->next) {
        if (!other->matches(tag)) continue;
        receive = other;
        break;
    }
    if (receive != nullptr) remove(*receive);
    return receive;
}

void PostedReceives::remove(PostedReceive& receive) {
    if (receive.mask == PostedReceive::kFullMask)
        remove_full(receive);
    else
        remove_wildcard(receive);
    receive.posted = false;
    --size_;
}

void PostedReceives::remove_full(PostedReceive& receive) {
    if (receive.first) {
        PostedReceive** link = &bucket(receive.tag);
        while (*link != &receive) link = &(*link)->chain;
        if (receive.next == &receive) {
            *link = receive.chain;
            return;
        }
        *link = receive.next;
        receive.next->first = true;
        receive.next->chain = receive.chain;
    }
    receive.previous->next = receive.next;
    receive.next->previous = receive.previous;
}

void PostedReceives::remove_wildcard(PostedReceive& receive) {
    (receive.previous != nullptr ? receive.previous->next : first_wildcard_) = receive.next;
    (receive.next != nullptr ? receive.next->previous : last_wildcard_) = receive.previous;
}

}  // namespace tern
