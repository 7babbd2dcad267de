// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "rwapi/core/messages.h"
#include "rwapi/core/net.h"
#include "rwapi/engine/peer.h"

namespace rwapi {

// Another thread of the program, which sleeps until an event comes. What this thread does makes no
// event, so it wakes that one. Only with RWAPI_THREAD_MULTIPLE.
class SleepingThread {
  public:
    SleepingThread(const Transport& transport, int threads)
        : transport_(transport), threads_(threads) {}

    int threads() const { return threads_; }
    void on_armed() { armed_ = threads_ == RWAPI_THREAD_MULTIPLE; }
    void wake() {
        if (!armed_) [[likely]]
            return;
        armed_ = false;
        transport_.wake();
    }

  private:
    const Transport& transport_;
    const int threads_;
    bool armed_ = false;
};

// The peers of a context: those that are in use, those that have work for progress, and those that
// have failed.
class Peers {
  public:
    Peers(const Self& self, SleepingThread& sleeper) : self_(self), sleeper_(sleeper) {}

    // The peer, which is added if it was not in use.
    Peer& at(uint32_t node);
    // The peer; null: it is not in use.
    Peer* find(uint32_t node) const;
    // Calls function(peer) for all peers; it must not add peers.
    template <class Function>
    void for_each(Function function) const {
        for (const auto& [node, peer] : peers_) function(*peer);
    }

    // The peers in use, in the order of their first use.
    size_t in_use() const { return in_use_.size(); }
    Peer& in_use(size_t i) const { return *in_use_[i]; }

    // The sender of a message. Null: the header is invalid, which has been logged.
    Peer* sender_of(const Header& header) {
        if (header.node >= self_.size || header.node == self_.rank) [[unlikely]] {
            report_dropped(self_.rank, "to itself a message with an invalid sender");
            return nullptr;
        }
        Peer& peer = at(header.node);
        peer.heard = true;
        return &peer;
    }
    // The sender of a message that has a header and a body, which are copied. Null also if it has
    // another length.
    template <class Body>
    Peer* sender_of(std::span<const std::byte> message, Header& header, Body& body) {
        return parse(message, header, body) ? sender_of(header) : nullptr;
    }
    // Logs that a message of a node is invalid and dropped; once for each node.
    void report_dropped(uint32_t node, const char* what);

    // Sends a message of rwapi itself to a ready peer. False: the send queue is full. After another
    // error the peer has failed.
    bool send(Peer& peer, MessageId id, uint16_t credit = 0, const void* body = nullptr,
              unsigned length = 0);

    // Sends a long message, whose parts are copied. The first is the header.
    using Parts = std::span<const std::span<const std::byte>>;
    bool send_long(Peer& peer, MessageId id, Parts parts);

    // Has the next serve() call its function for the peer.
    void add_work(Peer& peer);
    bool has_work() const { return !with_work_.empty(); }
    size_t with_work() const { return with_work_.size(); }
    Peer& with_work(size_t i) const { return *with_work_[i]; }
    // Calls serve(peer) for each peer with work. It returns whether work is left for the next time,
    // and may add work and peers.
    template <class Serve>
    void serve(Serve serve) {
        served_.swap(with_work_);
        for (Peer* peer : served_) {
            peer->has_work = false;
            if (serve(*peer)) add_work(*peer);
        }
        served_.clear();
    }
    // Whether progress can do something before an event comes.
    bool has_own_work() const;

    // Marks a peer as failed. Its operations are ended later, outside of UCT's callbacks.
    void mark_failed(Peer& peer, ucs_status_t status);
    // For UCT: `peers` is this object.
    static ucs_status_t on_endpoint_error(void* peers, uct_ep_h endpoint, ucs_status_t status);
    bool has_failed() const { return !failed_.empty(); }
    // A peer that has failed since the last call; null: there is none.
    Peer* take_failed();
    // Whether a peer has ever failed.
    bool any_failed() const { return any_failed_; }
    // The peer has said goodbye: its memory can be used until it is over.
    void on_left(Peer& peer);
    // Whether nothing can come any more, as all peers have left or failed.
    bool none_left() const { return gone_ != 0 && gone_ == self_.size - 1; }

    // Destroys all endpoints. UCT completes what is still posted.
    void close_endpoints();

  private:
    const Self self_;
    SleepingThread& sleeper_;
    std::unordered_map<uint32_t, std::unique_ptr<Peer>> peers_;
    std::vector<Peer*> in_use_;  // all of these
    std::vector<Peer*> with_work_;
    std::vector<Peer*> served_;  // the peers of the serve() that runs
    std::vector<Peer*> failed_;
    bool any_failed_ = false;
    uint32_t gone_ = 0;  // have left or failed
};

}  // namespace rwapi
