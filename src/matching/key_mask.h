// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tern {

// The mask that nearly all receives of a program have, learnt from them. Most libraries compare
// whole tags, but MPICH leaves two bits open in each receive, by which it reports errors of
// collective operations. What a message and such a receive have to agree in is the *key*: the tag's
// bits in the mask. Receives with the key mask are found by their key; all others are wildcards.
//
// A vote at each post decides. A mask takes the key mask's place when it has had more than two
// thirds of the votes for long enough, and each change makes the next one need twice as many, so
// that programs that mix masks, or alternate between them, come to rest at one of them. Only masks
// that leave few bits open count: where many are open a field is, in MPI the source or the tag, and
// a key without the source would be of several senders.
class KeyMask {
  public:
    static constexpr uint64_t kFull = ~uint64_t{0};
    static constexpr int kMostOpen = 4;  // bits

    static constexpr bool eligible(uint64_t mask) { return std::popcount(~mask) <= kMostOpen; }

    uint64_t value() const { return value_; }
    // A receive is posted with this mask. Data path.
    void vote(uint64_t mask) {
        if (changes()) return;
        if (mask == value_) [[likely]]
            score_ -= std::min(score_, kAgainst);
        else
            vote_for_another(mask);
    }
    // Another one has won; change() makes it the key mask, and nothing is voted on before.
    bool changes() const { return score_ == needed_; }
    void change() {
        if (!changes()) return;
        value_ = candidate_;
        score_ = 0;
        needed_ = std::min(2 * needed_, kMostNeeded);
    }

  private:
    static constexpr uint32_t kAgainst = 2;
    static constexpr uint32_t kFirstNeeded = 32;
    static constexpr uint32_t kMostNeeded = 1 << 20;

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
    uint32_t needed_ = kFirstNeeded;
};

}  // namespace tern
