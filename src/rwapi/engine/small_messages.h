// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rwapi/core/credit.h"
#include "rwapi/engine/peers.h"

namespace rwapi {

// Small messages: their credit, and the inbox of those that have arrived.
class SmallMessages {
  public:
    SmallMessages(const Self& self, Peers& peers) : self_(self), peers_(peers) {}

    // Posts a message to a ready peer. Its credit has been spent.
    ucs_status_t post(Peer& peer, const rwapi_small& small);
    // Puts a message of this process into its own inbox. False: there is no credit.
    bool send_to_self(const rwapi_small& small);
    // Takes the oldest message. False: there is none.
    bool receive(uint32_t& node, rwapi_small& small);

    // Returns credit in a message of its own, if much is owed. False: the send queue is full.
    bool send_credit(Peer& peer);

    // Tells the peer that nothing more will come, if that is due. False: the send queue is full.
    bool send_goodbye(Peer& peer);

    // For UCT's callbacks.
    void on_small(std::span<const std::byte> message);
    void on_credit(std::span<const std::byte> message);
    void on_goodbye(std::span<const std::byte> message);

  private:
    Peer* sender_of(std::span<const std::byte> message, Header& header);
    void add_credit(Peer& peer, uint16_t units);
    void make_room(Peer& peer);

    const Self self_;
    Peers& peers_;
    Inbox inbox_;
};

}  // namespace rwapi
