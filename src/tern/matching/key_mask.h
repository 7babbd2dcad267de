// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tern/base/tunables.h"

namespace tern {

// The mask that nearly all receives of a program have, learnt from the posted receives. Most
// libraries compare whole tags, but MPICH leaves two bits open in each receive, which report errors
// of collective operations. The *key* is the tag's bits in the mask: a message and a receive with
// the key mask match if their keys are equal. Receives with the key mask are found by their key;
// all others are wildcards.
//
// Each posted receive votes for its mask. A mask replaces the key mask when it has had more than
// two thirds of the votes for long enough. Each change doubles the votes needed for the next one,
// so that programs that mix masks, or alternate between them, settle on one mask. Only masks that
// leave few bits open are candidates: many open bits are a whole field, in MPI the source or the
// tag, and a key without the source would belong to several senders.
class KeyMask {
  public:
    static constexpr uint64_t kFull = ~uint64_t{0};

    static constexpr bool eligible(uint64_t mask) { return std::popcount(~mask) <= kMostOpenBits; }

    uint64_t value() const { return value_; }
    // Counts a receive posted with this mask. Data path.
    void vote(uint64_t mask) {
        if (changes()) return;
        if (mask == value_) [[likely]]
            score_ -= std::min(score_, kVotesAgainst);
        else
            vote_for_another(mask);
    }
    // True: another mask has won. Votes do not count until change() makes it the key mask.
    bool changes() const { return score_ == needed_; }
    void change() {
        if (!changes()) return;
        value_ = candidate_;
        score_ = 0;
        needed_ = std::min(2 * needed_, kMostVotes);
    }

  private:
    void vote_for_another(uint64_t mask) {
        if (!eligible(mask)) return;
        if (score_ == 0) candidate_ = mask;
        if (mask == candidate_)
            ++score_;
        else
            --score_;
    }

    uint64_t value_ = kFull;
    uint64_t candidate_ = 0;
    uint32_t score_ = 0;
    uint32_t needed_ = kFirstVotes;
};

}  // namespace tern
