// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "connection/packet.h"

namespace tern {

// Intervals are in the caller's unit of time (the transport uses nanoseconds).
struct HandshakeTimes {
    uint64_t retry_first = 0;       // until the first retransmission; doubles from there
    uint64_t retry_most = 0;        // what it doubles up to
    uint64_t connect_limit = 0;     // until an unanswered connect or ping is given up
    uint64_t disconnect_limit = 0;  // until an unanswered disconnect is taken for granted
};

// One side of one connection, from first use to its end: a pure state machine, without queue pairs,
// network or clock. Both sides run the same one; simultaneous attempts need no tie to be broken,
// since each side tells its queue pair and learns the other's.
//
//   kConnecting  own queue pair told (kConnect), the peer's not known yet
//   kReady       the peer's is known and the own one connected; the peer's may not be yet
//   kUp          both are; data may be sent
//   kDraining    the peer wants to end it: no new operations; the old ones done, kGone is sent
//   kClosing     this side wants to end it: kDisconnect is repeated until kGone comes
//   kClosed      over
//
// What leads from one to the other:
//
//   kConnecting  a kConnect of the peer                      kReady
//                a kGone that refuses, the time limit        kClosed
//   kReady       the peer's is ready, or data has come       kUp
//                kDisconnect                                 kDraining
//   kUp          disconnect()                                kClosing
//                kDisconnect                                 kDraining
//   kDraining    drained()                                   kClosed
//   kClosing     kGone, kDisconnect, the time limit          kClosed
//   all          kGone, a newer kConnect, abandon()          kClosed
//
// Only kConnecting, kReady and kClosing retransmit. In kUp the peer's repetitions are answered
// until it knows.
class Handshake {
  public:
    enum class State : uint8_t { kConnecting, kReady, kUp, kDraining, kClosing, kClosed };

    // What the owner must do after an input, in this order.
    struct Actions {
        bool connect_qp = false;   // connect the own queue pair to peer(); once at most
        bool send = false;         // send `packet`
        bool established = false;  // kUp reached: start what waits
        bool drain = false;   // kDraining reached: let what is outstanding finish, then drained()
        bool closed = false;  // kClosed reached: use what has arrived, destroy the queue pair
        bool lost = false;    // with closed: the peer dropped the connection without being asked.
                              // If it never was established nothing was sent: start anew
        bool timed_out = false;  // with closed: the peer did not answer in time
        // With closed: the peer refuses to be connected to. It would do so again.
        Refusal refusal = Refusal::kNone;
        Packet packet;
    };

    // `token` names this connection to the peer: never 0, and newer (modulo 2^32) than all that
    // this interface has used before with this peer, so that the peer can tell late packets from
    // new attempts. `local` is the own queue pair, created by the caller.
    Handshake(uint32_t token, const PeerAddress& self, const PeerAddress& peer,
              const QpParameters& local, const HandshakeTimes& times);

    // First use by this side.
    Actions connect(uint64_t now);
    // A packet from this peer, of type kConnect, kDisconnect, kGone or kAlive, meant for this
    // interface. One that belongs to an older connection is answered with kGone if it asks for
    // something, and otherwise dropped. A kConnect with a newer token of the peer ends this
    // connection: closed, and lost if this side was not ending it. The caller then treats that
    // packet as one that belongs to no connection, and does so before it starts anew itself: two
    // sides that each answered an attempt with one of their own could go on like that for ever.
    Actions receive(const Packet& packet, uint64_t now);
    // Data has come over the queue pair: the peer's side is up.
    Actions data_arrived(uint64_t now);
    // This side has no more use for the connection; nothing is outstanding. Only in kUp.
    Actions disconnect(uint64_t now);
    // What was outstanding at kDraining is done.
    Actions drained();
    // The queue pair has failed, or the interface goes: ends at once, telling the peer (kGone), and
    // why if it was never connected.
    Actions abandon(Refusal why = Refusal::kNone);
    // To be called at or after deadline().
    Actions tick(uint64_t now);

    // When to call tick; UINT64_MAX if there is nothing to wait for.
    uint64_t deadline() const;
    State state() const { return state_; }
    uint32_t token() const { return token_; }
    const QpParameters& local() const { return local_; }
    // Known from kReady on.
    const QpParameters& peer() const { return peer_qp_; }

  private:
    Actions receive_connect(const Packet& packet, uint64_t now);
    Actions receive_disconnect(const Packet& packet);
    Actions receive_gone(const Packet& packet);

    void start(uint64_t now, uint64_t limit);
    void close(Actions& actions);
    void say(Actions& actions, PacketType type) const;

    State state_ = State::kConnecting;
    uint32_t token_;
    uint32_t peer_token_ = 0;
    PeerAddress self_;
    PeerAddress peer_address_;
    QpParameters local_;
    QpParameters peer_qp_;
    HandshakeTimes times_;
    uint64_t interval_ = 0;           // until the retransmission after the next
    uint64_t retry_at_ = UINT64_MAX;  // the next retransmission
    uint64_t limit_at_ = UINT64_MAX;  // when patience ends
};

// The answer to a packet that belongs to no connection; empty if it asks for nothing. A kConnect
// with peer_token 0 belongs to none either, but opens one: give it to a new Handshake.
std::optional<Packet> answer_stray(const Packet& packet, const PeerAddress& self);

// The answer to such a kConnect if no Handshake can be made for it.
Packet refuse(const Packet& connect, const PeerAddress& self, Refusal why);

}  // namespace tern
