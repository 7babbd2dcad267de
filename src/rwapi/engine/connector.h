// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rwapi/bootstrap/bootstrap.h"
#include "rwapi/core/published_address.h"
#include "rwapi/engine/peers.h"

namespace rwapi {

// Connections: publishes the address of this process, looks up those of peers, and connects to
// them.
//
// A transport that connects endpoint to endpoint needs wireup messages, which a second interface
// carries. Each side sends the address of its endpoint, and sends it again after it has connected
// its endpoint to the peer's. A peer is ready when both sides have connected.
class Connector {
  public:
    Connector(const Self& self, Bootstrap& bootstrap, Transport& transport, Peers& peers)
        : self_(self), bootstrap_(bootstrap), transport_(transport), peers_(peers) {}

    // Collective: publishes the address. The transport is open; it must be that of node 0. 0 or an
    // RWAPI_ERR_*.
    int publish();
    // Collective, in its place: tells the others that this process has no transport.
    void publish_nothing();

    // Looks up what the peer has published, unless that is known. RWAPI_ERR_PEER: the peer has
    // failed, or this process cannot connect to it; RWAPI_ERR_START: the launcher has failed, which
    // says nothing of the peer.
    int look_up(Peer& peer);
    // Whether a network address was made by the current context of its node. RWAPI_OK or an error.
    int check(const rwapi_net& net);
    // Begins to connect a peer that is in state kNew. False: its address cannot be had.
    bool connect(Peer& peer);

    // Sends the wireup message that is due, if any. False: the send queue is full.
    bool send_wireup(Peer& peer);
    // For UCT's callback: stores a wireup message for process_wireups().
    void on_wireup(std::span<const std::byte> message);
    bool has_wireups() const { return !wireups_.empty(); }
    void process_wireups();

  private:
    struct Wireup {
        uint32_t node;
        bool connected;
        uint64_t incarnation;
        std::vector<std::byte> endpoint;
    };

    PublishedAddress own_address() const;
    void process(const Wireup& wireup);
    int compare_transports();
    void log_other_transport(uint32_t node, const AddressHeader& header) const;

    const Self self_;
    Bootstrap& bootstrap_;
    Transport& transport_;
    Peers& peers_;
    std::vector<Wireup> wireups_;  // have arrived
};

}  // namespace rwapi
