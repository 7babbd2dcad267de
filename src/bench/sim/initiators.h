// SPDX-License-Identifier: BSD-3-Clause
// The few queue pairs by which a transport of dynamic connections sends to many peers. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bench::sim {

class Initiators {
  public:
    explicit Initiators(uint32_t count) : count_(count) {}

    // Sends to the peer. True: the initiator that has not sent for the longest time connects to it.
    bool connects(uint32_t peer) {
        if (count_ == 0) return false;
        const auto found = std::ranges::find(peers_, peer);
        const bool known = found != peers_.end();
        if (known)
            peers_.erase(found);
        else if (peers_.size() == count_)
            peers_.erase(peers_.begin());
        peers_.push_back(peer);
        return !known;
    }

  private:
    uint32_t count_;
    std::vector<uint32_t> peers_;  // of the initiators, the last one has sent last
};

}  // namespace bench::sim
