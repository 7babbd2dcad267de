// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "base/assert.h"
#include "rendezvous/transfer_accounts.h"

namespace tern {

// Requests of peers, Fetch or Deliver frames, that wait because all places for transfers are taken.
template <class Frame>
class WaitingRequests {
  public:
    using Request = std::pair<Channel*, Frame>;

    explicit WaitingRequests(TransferAccounts& accounts) : accounts_(accounts) {}

    bool empty() const { return requests_.empty(); }
    // False: more requests wait than a peer that keeps to the protocol can have under way.
    bool add(Channel& channel, const Frame& frame) {
        if (++counts_[&channel] > kMost) return false;
        requests_.push_back({&channel, frame});
        accounts_.request_waits();
        return true;
    }
    // The oldest request; there must be one.
    Request take() {
        TERN_ASSERT(!empty());
        const Request request = requests_.front();
        requests_.pop_front();
        accounts_.requests_taken(1);
        if (const auto count = counts_.find(request.first); --count->second == 0)
            counts_.erase(count);
        return request;
    }
    // The channel is over.
    void forget(Channel& channel) {
        if (counts_.erase(&channel) == 0) return;
        accounts_.requests_taken(
            std::erase_if(requests_, [&](const Request& each) { return each.first == &channel; }));
    }

  private:
    static constexpr uint32_t kMost = 1 << 16;  // that wait, of one peer: it has as many numbers

    TransferAccounts& accounts_;
    std::deque<Request> requests_;
    std::map<Channel*, uint32_t> counts_;  // of each channel; never 0
};

}  // namespace tern
