// SPDX-License-Identifier: BSD-3-Clause
// A model of what a peer table does with one peer: interfaces that connect by Handshake, their
// queue pairs, and the network between them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "tern/connection/handshake.h"

namespace tern {

// Datagrams may be lost, duplicated and overtaken. Data on a queue pair may not, but fails if the
// other end does not exist or is connected to another queue pair. A new queue pair gets the lowest
// number that is free, and takes packets for an earlier one if their sequence numbers fit.
class HandshakeWorld {
  public:
    // `alone`: one interface talks to itself; otherwise two talk to each other.
    HandshakeWorld(Random random, bool alone);

    // Random steps, with losses, duplicates, reordering, disconnects, failing queue pairs and
    // silence.
    void chaos(unsigned steps);
    // Stops the failures, and runs until nothing moves by itself.
    void settle();
    // Each side's sends arrive in the end, over a network that works.
    void expect_traffic();
    // One or both sides disconnect; nothing may be left.
    void expect_end();

    // The first rule that was broken; empty if none.
    const std::string& wrong() const { return wrong_; }

  private:
    struct Qp {
        int side = 0;
        uint32_t number = 0;        // the device's; `qps_` has the queue pairs of the past too
        uint32_t token = 0;         // of the connection
        uint32_t peer_token = 0;    // once connected
        uint32_t connected_to = 0;  // remains after destruction
        bool alive = true;
        bool aborted = false;  // destroyed while operations might have been outstanding
        unsigned posted = 0;   // messages posted so far
        unsigned on_wire = 0;  // of the posted ones: not yet at the other end
        unsigned acked = 0;    // of the posted ones: known here to have arrived
        unsigned arrived = 0;  // messages from the other end
        unsigned read = 0;     // of those that arrived: used
    };
    struct Connection {
        Connection(uint32_t token, const PeerAddress& self, const PeerAddress& peer,
                   uint32_t qp_num, const HandshakeTimes& times)
            : handshake(token, self, peer, {qp_num, 3, 1}, times), qp(qp_num) {}
        Handshake handshake;
        uint32_t qp;
        bool established = false;
        bool draining = false;
        unsigned ticks = 0;
        unsigned alive = 0;  // signs of life from the peer
    };
    struct Side {
        PeerAddress address;
        std::unique_ptr<Connection> connection;
        uint32_t last_token = 0;
        unsigned waiting = 0;    // messages that wait for a connection
        unsigned delivered = 0;  // messages of this side that the other side has used
    };
    struct Datagram {
        int to;
        std::array<std::byte, Packet::kMaxSize> bytes;
        size_t size;

        std::span<const std::byte> packet() const { return std::span(bytes).first(size); }
    };

    int other(int side) const { return sides_.size() == 1 ? 0 : 1 - side; }
    Qp& qp(uint32_t number) { return qps_[number - 1]; }
    void broken(const std::string& rule);

    void chaos_step();
    void owner_step(int side);
    void send(int side);
    void open(int side, const Packet* packet);
    void receive(const Datagram& datagram);
    void answer_aside(const Datagram& datagram);
    void stray(int side, const Packet& packet);
    void act(int side, const Handshake::Actions& actions, bool gave_up = false);
    void closed(int side, const Handshake::Actions& actions, bool gave_up);
    void start_anew(int side);
    void put_on_wire(int side, const Packet& packet);
    void post_waiting(int side);
    void read_arrived(int side);
    void tick(int side);
    void deliver_data(uint32_t number);
    void deliver_late(const Qp& from, const Qp& meant);
    uint32_t free_number(int side) const;
    void abandon(int side);
    void disconnect(int side);
    void drain(int side);
    unsigned most_ticks(unsigned alive) const;
    bool progress();

    Random random_;
    HandshakeTimes times_;
    uint64_t now_ = 0;
    std::vector<Side> sides_;
    std::vector<Qp> qps_;
    std::vector<Datagram> network_;
    unsigned loss_ = 0;       // percent
    unsigned duplicate_ = 0;  // percent
    bool prompt_ = false;     // waiting messages reopen a connection at once
    std::string wrong_;
};

}  // namespace tern
