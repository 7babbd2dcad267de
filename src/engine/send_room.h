// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "engine/channel.h"
#include "engine/send_pool.h"

namespace tern {

class Connector;
class EngineOwner;
class WorkRequests;

// What a send is refused for, places in the send queue and buffers of the send pool, and what
// brings them back. Control path.
class SendRoom {
  public:
    SendRoom(SendPool& pool, Connector& connector, WorkRequests& requests, EngineOwner& owner)
        : pool_(pool), connector_(connector), requests_(requests), owner_(owner) {}

    // The send queue has no place, or the connection is not up. Returns kNoResource.
    [[gnu::cold]] Status no_place(const Channel& channel);
    // All buffers are in work requests. Returns kNoResource.
    [[gnu::cold]] Status no_buffer();

    uint64_t refused() const { return refused_; }

  private:
    SendPool& pool_;
    Connector& connector_;
    WorkRequests& requests_;
    EngineOwner& owner_;
    bool warned_send_pool_ = false;  // the owner, that the send pool cannot grow
    uint64_t refused_ = 0;           // sends on connections that are up
};

}  // namespace tern
