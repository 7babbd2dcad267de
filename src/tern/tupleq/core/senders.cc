// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/core/senders.h"

#include <bit>

#include "common/assert.h"
#include "tern/matching/key_mask.h"

namespace tern {

bool TupleSenders::bind(uint32_t peer, const TupleBind& bind, TupleBound& answer) {
    if (!std::has_single_bit(bind.depth) || !KeyMask::eligible(bind.mask)) return false;
    for (const Tuple& tuple : tuples_)
        if (tuple.bound && tuple.peer == peer &&
            (tuple.mask != bind.mask || ((tuple.tag ^ bind.tag) & bind.mask) == 0))
            return false;
    answer = {bind.tuple, TupleBound::kRefused, 0};
    if (free_.empty() || bind.depth > depth_) return true;

    const uint16_t number = free_.back();
    free_.pop_back();
    TERN_ASSERT(!tuples_[number].bound);
    uint64_t* slots = grants_ + first_slot(number);
    for (uint32_t i = 0; i < bind.depth; ++i) Grant::clear(slots + i);
    tuples_[number] = {TupleSender(slots, bind.depth, sequence_, epoch_),
                       bind.tag,
                       bind.mask,
                       bind.tuple,
                       number,
                       peer,
                       true};
    index_.insert(peer, bind.tag, bind.mask, number);
    answer.sender = number;
    answer.slot = first_slot(number);
    return true;
}

bool TupleSenders::close(uint32_t peer, const TupleClose& close, TupleClosed& answer) {
    if (close.sender >= tuples_.size()) return false;
    Tuple& tuple = tuples_[close.sender];
    if (!tuple.bound || tuple.peer != peer) return false;
    answer = {tuple.receiver, tuple.sender.close(), close.unbind};
    if (close.unbind) forget(tuple);
    return true;
}

void TupleSenders::peer_died(uint32_t peer) {
    for (Tuple& tuple : tuples_)
        if (tuple.bound && tuple.peer == peer) forget(tuple);
}

void TupleSenders::forget(Tuple& tuple) {
    TERN_ASSERT(tuple.bound && &tuple == &tuples_[tuple.number]);
    index_.erase(tuple.number);
    free_.push_back(tuple.number);
    tuple = {};
}

void TupleSenders::rebase(uint64_t* grants) {
    grants_ = grants;
    for (Tuple& tuple : tuples_)
        if (tuple.bound) tuple.sender.rebase(grants_ + first_slot(tuple.number));
}

}  // namespace tern
