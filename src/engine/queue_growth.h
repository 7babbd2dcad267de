// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

class Connector;
class EngineOwner;
class IdleChannels;
class WorkRequests;
struct Channel;

// Gives a busy peer's connection a long send queue. Most peers of a large job are silent, so only
// the first connections of an interface have one from the beginning. A queue pair cannot be
// resized: the connection ends in good order, and the next one has the longer queue. Both sides
// must make progress for that, so a peer counts as busy only while it takes messages from its
// block. Control path.
//
// States of a channel in this respect:
//
//   short  its send queue is short. Sends that find it full are counted, if the peer has taken
//          messages from its block since the last one; after kEnough: takes no data, until nothing
//          is outstanding
//   grows  if then only pending requests wait: its users have no channel, and the next one, which
//          is theirs when they send again, begins when this one is over. Otherwise short again
class QueueGrowth {
  public:
    QueueGrowth(uint32_t long_places, Connector& connector, WorkRequests& requests,
                IdleChannels& idle, EngineOwner& owner)
        : long_places_(long_places),
          connector_(connector),
          requests_(requests),
          idle_(idle),
          owner_(owner) {}

    // A send has found no place.
    void on_full(Channel& channel);
    // Nothing is outstanding on a channel that grows.
    void on_idle(Channel& channel);
    // The channel stays as it is.
    static void cancel(Channel& channel);

    // Channels that this side has ended for a longer queue.
    uint64_t grown() const { return grown_; }

  private:
    static constexpr uint32_t kEnough = 16;

    uint32_t long_places_;
    Connector& connector_;
    WorkRequests& requests_;
    IdleChannels& idle_;
    EngineOwner& owner_;
    uint64_t grown_ = 0;
};

}  // namespace tern
