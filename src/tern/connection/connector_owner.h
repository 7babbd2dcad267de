// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tern/connection/connection.h"

namespace tern {

// What a connector needs from its owner. Control path.
class ConnectorOwner {
  public:
    // Creates the connection object, of a class derived by the owner. Must not fail.
    virtual std::unique_ptr<Connection> make_connection(uint32_t index, const PeerAddress& peer,
                                                        const Handshake& handshake) = 0;
    // Makes room in the completion queue for `sends` work requests. False and errno: impossible.
    virtual bool reserve_completions(uint32_t sends) = 0;
    // Whether operations wait for this connection, which was never up: if the peer drops the
    // attempt, the connector makes another one.
    virtual bool wanted(const Connection& connection) const = 0;
    // Whether it is wanted, or has users, whose operations wait elsewhere.
    virtual bool used(const Connection& connection) const = 0;
    // The connection is up: data may be sent.
    virtual void established(Connection& connection) = 0;
    // The peer ends the connection. The owner calls finish_if_idle() when nothing is outstanding
    // and the transfers are over.
    virtual void draining(Connection& connection) = 0;
    // The peer could do without the connection, which is up.
    virtual void spare(Connection& connection) = 0;
    // Posts a signaled work request that has no effect.
    virtual void post_marker(Connection& connection) = 0;
    // The frames that this side has sent on the connection so far.
    virtual SentFrames sent(const Connection& connection) const = 0;
    // Whether all these frames of the peer have been delivered, or it is not heard any more.
    virtual bool has_taken(const Connection& connection, const SentFrames& sent) const = 0;
    // The connection is over and will be destroyed. kOk: no user has lost anything.
    virtual void closed(Connection& connection, Status status, const std::string& why) = 0;
    // The connection to the peer has to wait for room on this side's device. Called for the first
    // such peer only.
    virtual void waits(const PeerAddress& peer, const std::string& why) = 0;
    // Monotonic, in nanoseconds. For any thread.
    virtual uint64_t now() = 0;

  protected:
    ~ConnectorOwner() = default;
};

}  // namespace tern
