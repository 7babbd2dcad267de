// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rwapi/core/gathering.h"
#include "rwapi/engine/connector.h"
#include "rwapi/engine/peers.h"
#include "rwapi/engine/remote_regions.h"

namespace rwapi {

// Barriers and gatherings of addresses with their keys, one after the other. A peer can be in the
// next one already, but not in a later one, because that needs this process; unless a process has
// died, for which nobody waits. Of a peer that is further ahead, only that is kept.
class Collectives {
  public:
    Collectives(const Self& self, const Transport& transport, Connector& connector, Peers& peers,
                RemoteRegions& remotes)
        : self_(self),
          transport_(transport),
          connector_(connector),
          peers_(peers),
          remotes_(remotes),
          two_{empty(), empty()} {}

    // The transport is open.
    void open() { two_ = {empty(), empty()}; }

    // Begins one. own: the address of this process, whose key goes with it; null: a barrier.
    // RWAPI_ERR_BUSY: another thread is in one.
    int begin(const rwapi_net* own);
    // 1: it is over, and `all` (null: a barrier) has the addresses. RWAPI_ERR_PEER: the same, but
    // processes have ended. 0: it is under way.
    int test(rwapi_net* all);

    // For each progress.
    void on_progress() {
        if (active_) [[unlikely]]
            advance();
    }
    // For UCT's callbacks.
    void on_part(std::span<const std::byte> message);

  private:
    size_t item_bytes() const { return sizeof(rwapi_net) + Key::bytes(transport_.rkey_length()); }
    Gathering empty() const { return {self_.rank, self_.size, item_bytes()}; }
    Gathering& gathering(uint64_t number) { return two_[number % 2]; }
    void advance();
    bool send_step(Gathering& current);
    bool has_come(Gathering& current);
    void report(const Peer& peer);

    const Self self_;
    const Transport& transport_;
    Connector& connector_;
    Peers& peers_;
    RemoteRegions& remotes_;
    std::array<Gathering, 2> two_;      // by number
    std::array<uint64_t, 32> ahead_{};  // by step: the latest one whose part was not kept
    uint64_t number_ = 0;               // of the latest one that this process has begun
    uint32_t sent_ = 0;                 // items of this step
    bool step_sent_ = false;
    bool active_ = false;
};

}  // namespace rwapi
