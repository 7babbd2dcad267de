// SPDX-License-Identifier: BSD-3-Clause
#include "tern/matching/posted_receives.h"

#include <algorithm>
#include <bit>

namespace tern {

PostedReceives::PostedReceives(uint32_t expected)
    : buckets_count_(std::bit_ceil(std::max(uint64_t{2} * expected, uint64_t{16}))),
      shift_(static_cast<unsigned>(64 - std::countr_zero(buckets_count_))),
      buckets_(std::make_unique<PostedReceive*[]>(buckets_count_)) {
    all_.reserve(expected);
}

// Keys may differ in few bits anywhere; the multiplication carries these to the top, which selects
// the bucket.
PostedReceive*& PostedReceives::bucket(uint64_t tag) const {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
    const uint64_t key = tag & key_mask();
    return buckets_[((key ^ key >> 32) * kGolden) >> shift_];
}

PostedReceive* PostedReceives::find(uint64_t tag) const {
    PostedReceive* receive = bucket(tag);
    while (receive != nullptr && !receive->matches(tag)) receive = receive->chain;
    return receive;
}

void PostedReceives::post(PostedReceive& receive, uint64_t tag, uint64_t mask) {
    receive = {.tag = tag, .mask = mask, .order = order_++, .posted = true};
    ++size_;
    key_mask_.vote(mask);
    link(receive);
}

// `receive` is the last in posting order.
void PostedReceives::link(PostedReceive& receive) {
    if (!is_keyed(receive)) {
        receive.next = nullptr;
        receive.previous = last_wildcard_;
        (last_wildcard_ != nullptr ? last_wildcard_->next : first_wildcard_) = &receive;
        last_wildcard_ = &receive;
        return;
    }
    PostedReceive* first = find(receive.tag);
    receive.first = first == nullptr;
    if (first == nullptr) {
        PostedReceive*& head = bucket(receive.tag);
        receive.next = receive.previous = &receive;
        receive.chain = head;
        head = &receive;
        return;
    }
    receive.next = first;
    receive.previous = first->previous;
    receive.previous->next = &receive;
    first->previous = &receive;
}

// Links all receives anew, in posting order.
void PostedReceives::change_key() {
    for (uint32_t i = 0; i < buckets_count_; ++i) {
        for (PostedReceive* first = buckets_[i]; first != nullptr; first = first->chain)
            for (PostedReceive* each = first; each != nullptr; each = next(*each))
                all_.push_back(each);
        buckets_[i] = nullptr;
    }
    for (PostedReceive* each = first_wildcard_; each != nullptr; each = each->next)
        all_.push_back(each);
    first_wildcard_ = last_wildcard_ = nullptr;
    std::ranges::sort(all_, {}, &PostedReceive::order);
    key_mask_.change();
    for (PostedReceive* each : all_) link(*each);
    all_.clear();
}

const PostedReceive* PostedReceives::wildcard(uint64_t tag) const {
    const PostedReceive* receive = first_wildcard_;
    while (receive != nullptr && ((receive->tag ^ tag) & receive->mask & key_mask()) != 0)
        receive = receive->next;
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
    if (is_keyed(receive))
        remove_keyed(receive);
    else
        remove_wildcard(receive);
    receive.posted = false;
    --size_;
}

void PostedReceives::remove_keyed(PostedReceive& receive) {
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
