// SPDX-License-Identifier: BSD-3-Clause
// Refusals of peers' transfers, until they can be sent.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "tern/rendezvous/rendezvous_owner.h"
#include "tern/rendezvous/transfer.h"

namespace tern {

class Refusals {
  public:
    Refusals(Engine& engine, RendezvousCounters& counters, RendezvousOwner& owner)
        : engine_(engine), counters_(counters), owner_(owner) {}
    Refusals(const Refusals&) = delete;
    Refusals& operator=(const Refusals&) = delete;

    // Refuses a peer's access that no key permits. False: more refusals wait than a peer that keeps
    // to the protocol can cause.
    bool refuse(Channel& channel, uint32_t what, uint32_t number);
    // Keeps a refusal for the next send().
    void add(Channel& channel, const Refuse& frame) { frames_[&channel].push_back(frame); }
    bool empty() const { return frames_.empty(); }
    // Sends what can be sent, and returns its number.
    unsigned send();
    // The channel is over.
    void forget(Channel& channel) { frames_.erase(&channel); }

  private:
    static constexpr uint32_t kMost = 1 << 17;  // that wait, for one peer

    Engine& engine_;
    RendezvousCounters& counters_;
    RendezvousOwner& owner_;
    std::map<Channel*, std::deque<Refuse>> frames_;  // of each channel, in order
    bool warned_ = false;
};

}  // namespace tern
