// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tern/connection/address.h"
#include "tern/connection/datagrams.h"
#include "tern/connection/handshake.h"

namespace tern {

// Asks interfaces whether they are alive, without connecting. Only the lack of an answer is
// reported. Control path.
class Probes {
  public:
    // `self`: the own address. Times are in nanoseconds.
    Probes(Datagrams& datagrams, const PeerAddress& self, const HandshakeTimes& times)
        : datagrams_(datagrams), self_(self), times_(times) {}

    // Begins a probe; deadline() is then `now`. No effect while a probe with this cookie runs.
    // `gone`: the peer does not exist any more, so the probe is unanswered at the next tick().
    void begin(const PeerAddress& peer, void* cookie, uint64_t now, bool gone);
    // Ends the probe with this cookie, without a report.
    void forget(void* cookie);
    // Nothing can be sent to this port: its interfaces do not answer.
    void on_unreachable(const PortAddress& port);
    // The peer does not exist any more.
    void on_left(const PeerAddress& peer);
    // The peer has answered.
    void on_alive(const PeerAddress& peer);
    // To be called at or after deadline().
    void tick(uint64_t now);
    // When to call tick(); UINT64_MAX: never.
    uint64_t deadline() const;

    // Takes the cookie of an unanswered probe. False: there is none.
    bool take_unanswered(void*& cookie);

  private:
    struct Probe {
        PeerAddress peer;
        uint64_t next = 0;   // the next packet
        uint64_t limit = 0;  // when the probe is given up
        void* cookie = nullptr;
    };

    template <class Match>
    void give_up(Match&& match);
    void ping(const PeerAddress& peer);

    Datagrams& datagrams_;
    PeerAddress self_;
    HandshakeTimes times_;
    std::vector<Probe> probes_;
    std::vector<void*> unanswered_;
};

}  // namespace tern
