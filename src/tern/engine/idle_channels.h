// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/connection/peers.h"
#include "tern/engine/channel.h"
#include "tern/engine/idle_choice.h"

namespace tern {

class Connector;
class EngineOwner;
class WorkRequests;

// Keeps the number of connections near a limit, and makes room if the device has none for more.
// Connections that neither side uses are ended in good order; the endpoints stay, and their next
// operation connects again. The limit is soft: a new connection is never refused for it, and
// IdleChoice lets it give way to peers that come back. Control path.
//
// An interface with more connections than the limit suggests to some silent peers, by a packet that
// may be lost, that they end the connection. Nothing changes by that: a peer that computes does not
// answer, and another one is asked. The peer ends the connection if it has not used it since the
// suggestion before.
//
// States of a channel in this respect, with the side that leaves the state:
//
//   used     its counts have changed since the last look                            either side
//   silent   they have not, for long enough: IdleChoice has the peer asked, which    side over the
//            then counts as used, so that others are asked before it is asked again  limit
//   spare    the peer has asked twice, with no use between: end_channel(). Its      peer
//            users have no channel, and the handshake ends the connection
class IdleChannels {
  public:
    IdleChannels(uint32_t limit, Connector& connector, WorkRequests& requests, EngineOwner& owner)
        : choice_(limit),
          ended_last_(choice_.remembers()),
          connector_(connector),
          requests_(requests),
          owner_(owner) {}

    // Asks peers of silent channels if there are more connections than the limit, or if others wait
    // for room.
    void look();
    // A connection to the peer is over, or a new one begins.
    void on_over(const PeerAddress& peer);
    void on_begin(const PeerAddress& peer);
    // The peer could do without the channel.
    void on_spare(Channel& channel);

    // Channels that this side has ended because the peer could do without them.
    uint64_t ended() const { return ended_; }

  private:
    [[gnu::cold]] void suggest(uint32_t count, uint32_t waiting);
    bool may_end(Channel& channel) const;
    void end_channel(Channel& channel);

    IdleChoice choice_;
    PeerSet ended_last_;
    Connector& connector_;
    WorkRequests& requests_;
    EngineOwner& owner_;
    uint64_t ended_ = 0;
};

}  // namespace tern
