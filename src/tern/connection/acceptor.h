// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "tern/connection/handshake.h"
#include "tern/verbs/handles.h"
#include "tern/verbs/port.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

// Makes and connects the reliable queue pairs of an interface. Immutable, so for any thread.
struct QueuePairs {
    ibv_pd* pd;
    ibv_cq* cq;  // for every queue pair
    ibv_srq* srq;
    verbs::Port port;
    verbs::QueueSizes sizes;  // `sends`: of a long send queue
    uint32_t later_sends;     // places of a later one
    verbs::RetrySettings retry;
    InterfaceAddress own;

    // Creates a queue pair whose send queue has `sends` places. Null on failure: `what` and errno
    // say why.
    verbs::QueuePair create(uint32_t sends, const char*& what) const;
    // What a connection sends the peer about `qp`.
    QpParameters parameters(const ibv_qp& qp) const;
    // Connects `qp` to the queue pair that the peer has offered. Returns 0 or an errno value.
    int connect(ibv_qp* qp, const PeerAddress& peer, const Handshake& handshake) const;
};

// Accepts connections for an interface while its owner computes. Control path.
//
// Two threads use it: the background thread accepts connections; the owner takes the accepted
// connections, and claims the peers that it connects to itself. States of a peer:
//
//   stranger    none of the other states
//   being made  the background thread makes a queue pair for the peer, without the lock
//   accepted    the connection waits here for the owner; at most kMost connections do
//   claimed     in the owner's tables
//
// Transitions:
//
//   stranger    accept()                         being made
//               claim()                          claimed
//   being made  the queue pair is connected      accepted
//               the device refuses               stranger
//               claim()                          claimed; the queue pair is dropped
//   accepted    take()                           claimed
//   claimed     release()                        stranger
class Acceptor {
  public:
    static constexpr uint32_t kMost = 64;

    // A connection in Handshake::State::kReady: its queue pair is connected and the peer has been
    // told, so data may arrive.
    struct Accepted {
        PeerAddress peer;
        verbs::QueuePair qp;
        Handshake handshake;
        uint32_t peer_token;
        uint32_t sends;  // places of its send queue
    };

    Acceptor(const QueuePairs& queue_pairs, const PeerAddress& self, const HandshakeTimes& times);

    // Whether a packet opens a connection that accept() can make.
    static bool opens(const Packet& packet);

    // Accepts the connection that `packet` opens. For the background, one thread at a time. True:
    // the peer is accepted, by this call or an earlier one, and `reply` is the answer to send.
    // False: the owner must handle the packet, and refuse it or report the error.
    bool accept(const Packet& packet, uint64_t now, Packet& reply);

    // The functions from here to allow() are for the owner.
    // Keeps accept() from accepting the peer until release(). False: the peer is accepted already,
    // and must be taken.
    bool claim(const PeerAddress& peer);
    void release(const PeerAddress& peer);
    // Whether take() may return connections. An accepted connection shows here before a later
    // packet of its peer can be taken from the datagrams put aside.
    bool has_accepted() const { return count_.load(std::memory_order_acquire) != 0; }
    // Takes all accepted connections, and claims their peers.
    std::vector<Accepted> take();
    // Sets whether accept() may make connections. The owner must have room for kMost of them. At
    // most `long_queues` of those that are accepted get a long send queue.
    void allow(bool more, uint32_t long_queues) {
        allowed_.store(more, std::memory_order_relaxed);
        long_queues_.store(long_queues, std::memory_order_relaxed);
    }

    // Returns a token for a new connection, newer (modulo 2^32) than all before. For both threads.
    uint32_t next_token();

  private:
    std::optional<Accepted> make(const Packet& packet, uint32_t sends, uint64_t now, Packet& reply);
    std::vector<Accepted>::iterator find(const PeerAddress& peer);

    const QueuePairs queue_pairs_;
    const PeerAddress self_;
    const HandshakeTimes times_;
    std::atomic<uint32_t> token_;
    std::atomic<uint32_t> count_ = 0;  // size of accepted_; written under the mutex
    // Written by the owner; they order no other data.
    std::atomic<bool> allowed_ = true;
    std::atomic<uint32_t> long_queues_ = 0;

    std::mutex mutex_;  // protects the members below
    std::unordered_set<PeerAddress, PeerAddressHash> claimed_;
    std::vector<Accepted> accepted_;
    std::optional<PeerAddress> making_;  // reset by claim() too
};

}  // namespace tern
