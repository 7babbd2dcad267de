// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "tern/connection/packet.h"

namespace tern {

// Intervals are in the caller's unit of time (the transport uses nanoseconds).
struct HandshakeTimes {
    uint64_t retry_first = 0;       // until the first retransmission; doubles with each further one
    uint64_t retry_most = 0;        // longest interval between retransmissions
    uint64_t connect_limit = 0;     // until an unanswered connect is given up
    uint64_t disconnect_limit = 0;  // until an unanswered disconnect counts as answered
    unsigned jitter = 0;            // per cent by which intervals between retransmissions differ
    uint64_t probe_limit = 0;       // until an unanswered ping is given up
};

// The sequence number, of 24 bits, of the first packet that the queue pair of the connection
// `sender` sends to that of the connection `receiver`. A late packet for a queue pair that is gone
// does not fit to another one with its number, of the same attempt of the sender even.
uint32_t first_psn(uint32_t sender, uint32_t receiver);

// One side of one connection, from first use to its end: a pure state machine, without queue pairs,
// network or clock. Both sides run the same state machine. Simultaneous attempts need no tie-break,
// because each side sends its own queue pair and learns the other's.
//
//   kConnecting  own queue pair sent (kConnect), the peer's not known yet
//   kReady       own queue pair connected; the peer's known, but perhaps not connected yet
//   kUp          both queue pairs connected; data may be sent
//   kDraining    the peer ends the connection: no new operations; kGone when the old ones are done
//   kClosing     this side ends the connection: kDisconnect is repeated until kGone comes
//   kClosed      over
//
// Transitions:
//
//   kConnecting  a kConnect of the peer                      kReady
//                the time limit                              kClosed
//   kReady       a kConnect that is ready, or data           kUp
//                kDisconnect                                 kDraining
//                the time limit                              kClosed
//   kUp          disconnect()                                kClosing
//                kDisconnect                                 kDraining
//   kDraining    drained()                                   kClosed
//   kClosing     kGone, kDisconnect, the time limit          kClosed
//   all          kGone, a newer kConnect, abandon()          kClosed
//
// Only kConnecting, kReady and kClosing retransmit. In kUp, a kConnect of the peer without
// knows_ready is answered.
class Handshake {
  public:
    enum class State : uint8_t { kConnecting, kReady, kUp, kDraining, kClosing, kClosed };

    // What the owner must do after an input, in this order.
    struct Actions {
        bool connect_qp = false;   // connect the own queue pair to peer(); once at most
        bool send = false;         // send `packet`
        bool established = false;  // kUp reached: start the operations that wait
        bool drain = false;        // kDraining reached: finish the operations, then call drained()
        bool closed = false;       // kClosed reached: handle received data, destroy the queue pair
        bool lost = false;  // with closed: the peer dropped the connection without being asked;
                            // if it was never up, nothing was sent: start anew
        bool timed_out = false;  // with closed: the peer did not answer in time
        // With closed: the peer refuses the connection, and would refuse another one too.
        Refusal refusal = Refusal::kNone;
        Packet packet;
    };

    // `token` names this connection to the peer: never 0, and newer (modulo 2^32) than all tokens
    // that this interface has used with this peer, so that the peer can distinguish late packets
    // from new attempts. `local` is the own queue pair, created by the caller.
    Handshake(uint32_t token, const PeerAddress& self, const PeerAddress& peer,
              const QpParameters& local, const HandshakeTimes& times);

    // Begins the handshake from this side. No effect if it has begun.
    Actions connect(uint64_t now);
    // Handles a packet from this peer to this interface. Types other than kConnect, kDisconnect,
    // kGone and kAlive are ignored. A packet of an older connection is answered with kGone if it
    // asks for something, and otherwise dropped. A kConnect with a newer token of the peer ends
    // this connection: closed, and lost if this side was not ending it. The caller then treats the
    // packet as one that belongs to no connection, before it starts a connection of its own: two
    // sides that each answered an attempt with another attempt might never stop.
    Actions receive(const Packet& packet, uint64_t now);
    // Data has come over the queue pair, so the peer's side is up.
    Actions data_arrived(uint64_t now);
    // Whether the peer may have operations of its own when this side ends the connection. Then it
    // gets as long as for a connect. False at first.
    void be_patient(bool patient) { patient_ = patient; }
    // Ends the connection from this side; nothing may be outstanding. `sent`: all frames that this
    // side has sent, which have arrived. No effect outside kUp.
    Actions disconnect(uint64_t now, const SentFrames& sent);
    // The operations that were outstanding at kDraining are done. Sends kGone; `sent` as above.
    Actions drained(const SentFrames& sent);
    // Ends the connection at once, because the queue pair has failed or the interface closes. Sends
    // kGone, with `why`, if the peer's token is known.
    Actions abandon(Refusal why = Refusal::kNone);
    // To be called at or after deadline().
    Actions tick(uint64_t now);
    // Sets how long the peer may take from now on, until the handshake gives up: as for a connect
    // if this side wants the connection, as for a disconnect if not. No effect in kUp and later
    // states.
    void want(bool wanted, uint64_t now);

    // A packet that tells the peer that this side could do without the connection, which is up.
    Packet spare() const;
    // Whether a kSpare is for this connection, and it is up.
    bool is_spare(const Packet& packet) const {
        return state_ == State::kUp && packet.token == peer_token_ && packet.peer_token == token_;
    }

    // When to call tick(); UINT64_MAX: never.
    uint64_t deadline() const;
    State state() const { return state_; }
    uint32_t token() const { return token_; }
    // Known from kReady on.
    uint32_t peer_token() const { return peer_token_; }
    // Known from kReady on.
    const QpParameters& peer() const { return peer_qp_; }
    // What the peer has sent, all of which has arrived: known if the connection ends in good order.
    const std::optional<SentFrames>& peer_sent() const { return peer_sent_; }
    // For tests: what decides how it goes on from `now`.
    template <class Sink>
    void save(Sink&& sink, uint64_t now) const {
        sink(static_cast<uint64_t>(state_)), sink(token_), sink(peer_token_);
        sink(peer_qp_.qp_num), sink(interval_), sink(wanted_), sink(patient_);
        for (const auto& sent : {sent_, peer_sent_})
            sink(sent ? uint64_t{sent->hot} << 16 | sent->cold | uint64_t{1} << 32 : 0);
        for (const uint64_t at : {retry_at_, limit_at_}) sink(at == UINT64_MAX ? at : at - now);
    }

  private:
    Actions receive_connect(const Packet& packet, uint64_t now);
    Actions receive_disconnect(const Packet& packet);
    Actions receive_gone(const Packet& packet);

    uint64_t limit() const;
    void set_retry(uint64_t now);
    void start(uint64_t now);
    void close(Actions& actions);
    void prepare_packet(Actions& actions, PacketType type) const;

    State state_ = State::kConnecting;
    uint32_t token_;
    uint32_t peer_token_ = 0;
    PeerAddress self_;
    PeerAddress peer_address_;
    QpParameters local_;
    QpParameters peer_qp_;
    HandshakeTimes times_;
    std::optional<SentFrames> sent_;  // by this side; from the end of its operations on
    std::optional<SentFrames> peer_sent_;
    uint64_t interval_ = 0;           // between the last transmission and the next
    uint64_t retry_at_ = UINT64_MAX;  // the next retransmission
    uint64_t limit_at_ = UINT64_MAX;  // when the handshake gives up
    bool wanted_ = true;              // by this side
    bool patient_ = false;            // of be_patient()
};

// The answer to a packet that belongs to no connection; empty if the packet asks for nothing. Not
// for a kConnect with peer_token 0, which opens a connection: give it to a new Handshake.
std::optional<Packet> answer_stray(const Packet& packet, const PeerAddress& self);

// The sign of life that answers a request.
Packet alive(const Packet& request, const PeerAddress& self);

// The answer to a kConnect that opens a connection, if no Handshake can be made for it.
Packet refuse(const Packet& connect, const PeerAddress& self, Refusal why);

}  // namespace tern
