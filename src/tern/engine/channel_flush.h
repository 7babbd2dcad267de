// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tern/base/tunables.h"
#include "tern/engine/channel.h"

namespace tern {

class Connector;
class EarlySends;
class EngineOwner;
class PollBudget;
class WorkRequests;

// Waits for operations to arrive, and tests whether peers live. A channel's work requests complete
// in order, so it takes one signaled work request to do both. Control path.
class ChannelFlush {
  public:
    ChannelFlush(Connector& connector, WorkRequests& requests, PollBudget& budget,
                 EngineOwner& owner)
        : connector_(connector), requests_(requests), budget_(budget), owner_(owner) {}

    // kOk: all operations so far have arrived. kInProgress: the waiter, if any, is reported when
    // they have. kNoResource: try again. An error: the connection has failed and has lost some;
    // closed() follows.
    Status flush(Channel& channel, const Waiter& waiter);
    // Flushes all channels, without a waiter. kInProgress also until closed() has been called for
    // each channel that has failed with a loss.
    Status flush_all();
    // Ends the flushes of a user that leaves the channel, or has left it, with kCanceled.
    void cancel(Channel& channel, const void* user);

    // Whether there is a connection to `peer`, which Engine::attach() would return, and it is up.
    bool is_connected(const PeerAddress& peer) const;
    // Tests whether the endpoint's peer lives. If not, on_probe_timeout() is called, or the channel
    // fails. `channel` may be null.
    Status check_peer(Channel* channel, const PeerAddress& peer, void* user);
    // Tests whether the peer lives. kInProgress: the waiter is reported, as of an operation. Any
    // other status: it is not. kNoResource: there is no room now.
    Status check(Channel& channel, const Waiter& waiter);
    // Makes sure that a work request is outstanding whose completion would report the peer's death.
    void request_report(Channel& channel);
    // Calls request_report() if the peer has been silent for long (WorkRequests::check_silent).
    void check_silent(Channel& channel, uint64_t& since);
    // Tests the peers of channels that no endpoint uses, at most once in kUnusedPeriod: no one else
    // would find out that such a peer has died. `now`: monotonic, in nanoseconds.
    void check_unused(uint64_t now);

  private:
    Connector& connector_;
    WorkRequests& requests_;
    PollBudget& budget_;
    EngineOwner& owner_;
    uint64_t unused_due_ = 0;  // when check_unused() tests next
};

}  // namespace tern
