// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "connection/packet.h"

namespace tern {

// Intervals are in the caller's unit of time (the transport uses nanoseconds).
struct HandshakeTimes {
    uint64_t retry_first = 0;  // until the first retransmission; doubles from there
    uint64_t retry_most = 0;   // what it doubles up to
    uint64_t connect_limit = 0;     // until an unanswered connect or ping is given up
    uint64_t disconnect_limit = 0;  // until an unanswered disconnect is taken for granted
};

// One side of one connection, from first use to its end: a pure state machine, without queue pairs, network
// or clock. Both sides run the same one; simultaneous attempts need no tie to be broken, since each side
// tells its queue pair and learns the other's.
//
//   kConnecting   own queue pair told (kConnect), the peer's not known yet
//   kReady        the peer's is known and the own queue pair connected; the peer may not be able to receive yet
//   kUp           both can; data may be sent
//   kDraining     the peer wants to end it: no new operations; once the old ones are done, kGone is sent
//   kClosing      this side wants to end it: kDisconnect is repeated until kGone comes
//   kClosed       over
//
// Only kConnecting, kReady and kClosing retransmit. In kUp the peer's repetitions are answered until it knows.
class Handshake {
  public:
    enum class State : uint8_t { kConnecting, kReady, kUp, kDraining, kClosing, kClosed };

    // What the owner must do after an input, in this order.
    struct Actions {
        bool connect_qp = false;   // connect the own queue pair to peer(): it can receive and send from now on
        bool send = false;         // send `packet`
        bool established = false;  // kUp reached: start what waits
        bool drain = false;        // kDraining reached: let what is outstanding finish, then call drained()
        bool closed = false;       // kClosed reached: destroy the queue pair
        bool lost = false;         // with closed: the peer dropped the connection without being asked
        bool timed_out = false;    // with closed: the peer did not answer in time
        Packet packet;
    };

    // `token` names this connection to the peer: never 0, not used before by this interface. `local` is the
    // own queue pair, created by the caller.
    Handshake(uint32_t token, const PeerAddress& self, const PeerAddress& peer, const QpParameters& local,
              const HandshakeTimes& times);

    // First use by this side.
    Actions connect(uint64_t now);
    // A packet from this peer, of type kConnect, kDisconnect or kGone, meant for this interface. One that
    // belongs to another connection (wrong peer_token) is answered with kGone if it asks for something, and
    // otherwise dropped; a kConnect of a newer connection of the peer (another token) ends this one: closed
    // and lost, and the caller starts anew with that packet.
    Actions receive(const Packet& packet, uint64_t now);
    // Data has come over the queue pair: the peer's side is up.
    Actions data_arrived(uint64_t now);
    // This side has no more use for the connection; nothing is outstanding. Only in kUp.
    Actions disconnect(uint64_t now);
    // What was outstanding at kDraining is done.
    Actions drained();
    // The queue pair has failed, or the interface goes: ends at once, telling the peer (kGone).
    Actions abandon();
    // To be called at or after deadline().
    Actions tick(uint64_t now);

    // When to call tick; UINT64_MAX if there is nothing to wait for.
    uint64_t deadline() const;
    State state() const { return state_; }
    uint32_t token() const { return token_; }
    // Known from kReady on.
    const QpParameters& peer() const { return peer_qp_; }

  private:
    State state_ = State::kConnecting;
    uint32_t token_;
    uint32_t peer_token_ = 0;
    PeerAddress self_;
    PeerAddress peer_address_;
    QpParameters local_;
    QpParameters peer_qp_;
    HandshakeTimes times_;
    // Further members are the implementation's.
};

}  // namespace tern
