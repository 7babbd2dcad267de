// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rwapi/engine/peers.h"
#include "rwapi/engine/regions.h"
#include "rwapi/engine/remote_regions.h"

namespace rwapi {

// Keys for network addresses: a process asks the owner of an address for the region's key before
// its first operation there. A process has one request to a peer under way at most.
class KeyExchange {
  public:
    KeyExchange(const Self& self, Regions& regions, RemoteRegions& remotes, Peers& peers)
        : self_(self), regions_(regions), remotes_(remotes), peers_(peers) {}

    // Requests the key of the region with this name, unless a request is under way.
    // UCS_ERR_NO_RESOURCE: the send queue is full.
    ucs_status_t request(Peer& peer, uint64_t name);

    // Sends the key that the peer has requested, if any. False: the send queue is full.
    bool send_answer(Peer& peer);

    // For UCT's callbacks.
    void on_request(std::span<const std::byte> message);
    void on_answer(std::span<const std::byte> message);

  private:
    const Self self_;
    Regions& regions_;
    RemoteRegions& remotes_;
    Peers& peers_;
};

}  // namespace rwapi
