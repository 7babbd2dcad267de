// SPDX-License-Identifier: BSD-3-Clause
// One process of a job, with all its peers, in virtual time. What it decides about connections and
// blocks is the transport's own code: tern::IdleChoice, SendQueues, SendQueue, Handshake,
// Promotion, BlockSizes, SendPath. What acts on the decisions, on verbs in the engine, is
// simulated.
//
// The peers are in the same situation: each time that the process suggests to end a connection, so
// does the peer, and the peer looks at it as often.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/scale/blocks.h"
#include "bench/scale/messages.h"
#include "bench/scale/queues.h"
#include "tern/connection/peers.h"
#include "tern/engine/idle_choice.h"

namespace bench::scale {

// What is assumed of the machine and the program, in ns.
struct Times {
    uint64_t step = 10'000;    // between two messages of the process
    uint64_t setup = 100'000;  // to make a queue pair and connect it, on one side
    uint64_t packet = 2'000;   // from one side to the other
    uint32_t looks = 4;        // for packets and silent connections, between two messages
};

// What a handshake of the transport takes, counted by tern::Handshake.
struct HandshakePackets {
    uint32_t connect = 0;  // until both sides are up
    uint32_t trips = 0;    // one after the other until the side that began is up
    uint32_t end = 0;
};
HandshakePackets count_packets();

struct Outcome {
    uint64_t messages = 0;
    uint64_t received = 0;
    uint64_t hot = 0;      // of those received
    uint64_t offers = 0;   // of blocks
    uint64_t delayed = 0;  // by a connection that was not up
    uint64_t connects = 0;
    uint64_t reconnects = 0;
    uint32_t most = 0;  // connections at a time
    uint64_t sum = 0;   // of connections, at all messages
    uint64_t queue_bytes = 0;
    uint64_t registered_bytes = 0;
    uint64_t record_bytes = 0;  // of the transport, for connections
};

class Process {
  public:
    Process(const tern::EngineSettings& settings, const Times& times, uint32_t ranks);

    void handle(const Message& message);
    Outcome outcome() const;

  private:
    class Rows;

    Peer& connected(uint32_t rank);
    void end(Peer& peer);
    void look();
    // What IdleChannels::on_spare() does at one side. True: it ends the connection.
    static bool spares(tern::ConnectionUse& use, const tern::ConnectionUse::Counts& counts,
                       tern::SendQueue& sends);
    static void post(tern::SendQueue& sends);
    static tern::ConnectionUse::Counts counts(const Peer& peer);
    static tern::ConnectionUse::Counts their_counts(const Peer& peer);

    Times times_;
    uint64_t connect_time_;
    tern::IdleChoice choice_;
    tern::PeerSet ended_last_;
    Queues queues_;
    Blocks blocks_;
    size_t registered_;
    std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: not met
    std::vector<Peer*> rows_;                   // of the table; null: free
    std::vector<uint32_t> free_rows_;
    uint32_t live_ = 0;
    uint64_t now_;
    uint64_t records_ = 0;  // bytes
    Outcome outcome_;
};

}  // namespace bench::scale
