// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "tern/base/tunables.h"

namespace tern {

// How many peers send cold. Time is counted in cold messages, in rounds of kColdRound: a peer
// counts in the round in which it sends, and in the next one. Silent peers do not count. Data path.
class ColdSenders {
  public:
    // Of one peer; a member of its channel.
    struct Peer {
        uint32_t round = 0;  // the last one in which it sent
    };

    // Messages from `peer`.
    void count(Peer& peer, uint32_t messages = 1) {
        if (peer.round != round_) {
            peer.round = round_;
            ++senders_;
        }
        messages_ += messages;
        if (messages_ >= kColdRound) [[unlikely]] {
            ++round_;
            before_ = senders_;
            messages_ = senders_ = 0;
        }
    }
    uint32_t number() const { return std::max(senders_, before_); }

  private:
    uint32_t round_ = 1;
    uint32_t messages_ = 0;  // in this round
    uint32_t senders_ = 0;   // in this round
    uint32_t before_ = 0;    // in the one before
};

}  // namespace tern
