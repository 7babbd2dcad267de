// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "connection/queue_pairs.h"
#include "verbs/handles.h"

namespace tern {

// Makes the connections that strangers ask for while the interface's owner computes. Control path.
//
// Two threads use it: one in the background accepts, and the owner of the connections takes what
// has been accepted, and claims the peers that it connects to itself. What a peer is:
//
//   stranger    none of the others
//   being made  the background makes a queue pair for it, and holds no lock meanwhile
//   accepted    its connection waits here for the owner; kMost of them at most
//   claimed     in the owner's tables
//
// What leads from one to the other:
//
//   stranger    accept()                         being made
//               claim()                          claimed
//   being made  the queue pair is connected      accepted
//               the device refuses               stranger
//               claim()                          claimed; what was being made is dropped
//   accepted    take()                           claimed
//   claimed     release()                        stranger
class Acceptor {
  public:
    static constexpr uint32_t kMost = 64;

    // A connection in Handshake::State::kReady: its queue pair is connected, and the peer has been
    // told, so that data may come over it.
    struct Accepted {
        PeerAddress peer;
        verbs::QueuePair qp;
        Handshake handshake;
        uint32_t peer_token;
    };

    Acceptor(const QueuePairs& queue_pairs, const PeerAddress& self, const HandshakeTimes& times);

    // Whether a packet opens a connection as accept() makes them.
    static bool opens(const Packet& packet);

    // For the background, one thread at a time: a packet that opens a connection. True: the peer is
    // accepted, by this call or an earlier one, and `reply` is the answer. False: it is the owner's
    // to handle, and to refuse or to tell of what is wrong.
    bool accept(const Packet& packet, uint64_t now, Packet& reply);

    // The rest is for the owner.
    // False: the peer is accepted, and must be taken.
    bool claim(const PeerAddress& peer);
    void release(const PeerAddress& peer);
    // Whether there may be something to take. A packet that take() must come before has been put
    // aside behind it.
    bool any() const { return count_.load(std::memory_order_acquire) != 0; }
    // All that is accepted; the peers are claimed by that.
    std::vector<Accepted> take();
    // Whether more may be accepted: there is room for kMost of them.
    void allow(bool more) { allowed_.store(more, std::memory_order_relaxed); }

    // Names of connections, each newer than those before; for both threads.
    uint32_t next_token();

  private:
    std::optional<Accepted> make(const Packet& packet, uint64_t now, Packet& reply);
    std::vector<Accepted>::iterator find(const PeerAddress& peer);

    const QueuePairs queue_pairs_;
    const PeerAddress self_;
    const HandshakeTimes times_;
    std::atomic<uint32_t> token_;
    std::atomic<uint32_t> count_ = 0;   // of accepted_: written under the mutex
    std::atomic<bool> allowed_ = true;  // written by the owner, and orders nothing

    std::mutex mutex_;  // of all below
    std::unordered_set<PeerAddress, PeerAddressHash> claimed_;
    std::vector<Accepted> accepted_;
    std::optional<PeerAddress> making_;  // empty as well once somebody has claimed it
};

}  // namespace tern
