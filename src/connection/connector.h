// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "connection/acceptor.h"
#include "connection/admission.h"
#include "connection/connection.h"
#include "connection/connection_table.h"
#include "connection/datagrams.h"
#include "connection/peer_set.h"
#include "connection/peers.h"
#include "connection/probes.h"
#include "connection/retired_queue_pairs.h"
#include "verbs/port.h"

namespace tern {

struct ConnectorSettings {
    verbs::QueueSizes queues;
    verbs::RetrySettings retry;
    HandshakeTimes times;  // nanoseconds
};

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
    // The connection is up: data may be sent.
    virtual void established(Connection& connection) = 0;
    // The peer ends the connection. The owner calls finish_if_idle() when nothing is outstanding
    // and the transfers are over.
    virtual void draining(Connection& connection) = 0;
    // Posts a signaled work request that has no effect.
    virtual void post_marker(Connection& connection) = 0;
    // The connection is over and will be destroyed. kOk: no user has lost anything.
    virtual void closed(Connection& connection, Status status, const std::string& why) = 0;
    // This side refuses the peer for lack of room. Called for the first such peer only.
    virtual void refused(const PeerAddress& peer, const std::string& why) = 0;
    // Monotonic, in nanoseconds. For any thread.
    virtual uint64_t now() = 0;

  protected:
    ~ConnectorOwner() = default;
};

// Makes connections through the handshake, and ends them. Control path. One thread at a time,
// except answer().
//
// The life of a connection: Handshake has the states of its protocol. Besides,
//
//   open    in ConnectionTable and Peers
//   failed  over, in good order too: in ConnectionTable until its last work request has completed
//           and nobody holds it; then destroyed, except for its queue pair: see RetiredQueuePairs
class Connector {
  public:
    // Every connection uses `cq` and `srq`.
    Connector(ibv_pd* pd, const verbs::Port& port, const ConnectorSettings& settings,
              std::unique_ptr<Datagrams> datagrams, ibv_cq* cq, ibv_srq* srq,
              const PeerAddress& self, ConnectorOwner& owner);
    // Ends all connections at once, and notifies all peers that may have endpoints to this
    // interface. No thread may be in answer().
    ~Connector();
    Connector(const Connector&) = delete;
    Connector& operator=(const Connector&) = delete;

    // The connection to `peer`, begun if there is none. While a connection is ending, the next one,
    // which begins when the first is over. To a peer that has left, one that fails at once. Null on
    // failure; `why` has the reason.
    Connection* connect(const PeerAddress& peer, std::string& why);
    // Asks whether an interface is alive, without connecting; see Probes.
    void probe(const PeerAddress& peer, void* cookie) {
        const uint64_t now = owner_.now();
        probes_.begin(peer, cookie, now, left_.contains(peer));
        wake_at(now);
    }
    Probes& probes() { return probes_; }

    // Takes packets that have come, for progress() to handle.
    void gather() {
        take_packets();
        gathered_ = packets_.size();
    }
    // Handles the packets that were gathered, and deadlines. Returns how many packets were handled.
    // After gather() the caller must first take the data that has come over the connections.
    unsigned progress();
    // For the background thread: answers peers, and accepts connections, which the owner adopts
    // later.
    void answer() { datagrams_->answer(acceptor_, owner_.now()); }
    // Enters connections that were accepted in the background into the tables.
    void adopt() {
        if (acceptor_.has_accepted()) adopt_all();
    }

    uint64_t now() const { return owner_.now(); }

    // When progress() is needed even if no packet comes, in nanoseconds; UINT64_MAX: never.
    uint64_t deadline() const { return deadline_; }

    // Recomputes deadline(), which may be too early after an answer. Looks at every connection,
    // unless there is no deadline.
    void look_at_deadlines();

    // Whether datagrams should be polled soon: a packet of a handshake or probe has been sent or
    // received a short time ago, or a connection is over.
    bool urgent() const { return (urgent_ != 0 && deadline_ != UINT64_MAX) || !over_.empty(); }
    // Whether a packet waits.
    bool datagrams_waiting() {
        take_packets();
        return !packets_.empty();
    }

    // Ends a connection in good order, as soon as nothing is outstanding. One that the peer has not
    // answered yet ends at once, unless operations wait for it.
    void disconnect(Connection& connection);
    // The connection, perhaps one that closes, is used again.
    void resume(Connection& connection);
    // Ends a connection at once. `refusal`: for the peer, if the connection was never up and
    // `status` is not kCanceled.
    void fail(Connection& connection, Status status, const std::string& why,
              Refusal refusal = Refusal::kDevice);
    // The same for all connections.
    void fail_all(Status status, const std::string& why);
    // To be called for data that comes over a connection that is not up.
    void data_arrived(Connection& connection);
    // To be called when an operation completes on a connection that is closing or draining.
    void finish_if_idle(Connection& connection);
    // Reports and destroys connections that are over and have nothing outstanding; returns how
    // many. Never from within a callback.
    unsigned destroy_closed();
    // Whether destroy_closed() has work to do before another work request completes.
    bool may_destroy_closed() const;

    // Where connections are found. Data path.
    const ConnectionTable& table() const { return table_; }
    // As ConnectionTable::find(), after that has returned null: adopts connections first.
    [[gnu::cold]] Connection* find_accepted(uint32_t qp_num);
    Datagrams& datagrams() const { return *datagrams_; }
    // Queue pairs that outlive their connections. While there are any, the device's events must be
    // taken before progress().
    RetiredQueuePairs& retired() { return retired_; }

  private:
    static constexpr uint32_t kMostAttempts = 16;  // at one connection, dropped by the peer
    static constexpr size_t kMostGathered = 64;    // packets at a time
    // Calls of progress() after a packet in which the next packet is expected.
    static constexpr uint32_t kUrgent = 4096;
    static constexpr uint64_t kFarewell = 100'000'000;  // nanoseconds, for all peers

    Connection* begin(const PeerAddress& peer, std::string& why);
    Connection& enter(const PeerAddress& peer, verbs::QueuePair qp, const Handshake& handshake,
                      uint32_t sends);
    void claim(const PeerAddress& peer);
    void release(const PeerAddress& peer);
    void adopt_all();
    void turn_away(Connection& connection);
    void retire_queue_pair(verbs::QueuePair qp, bool reported);
    bool begin_anew(Connection& connection);
    void take_packets();
    void handle(const Packet& packet);
    void take_attempt(const Packet& packet);
    void on_left(const PeerAddress& peer);
    void on_unreachable(const PortAddress& port, int error);
    void begin_handshake(Connection& connection, uint64_t now);
    void act(Connection& connection, const Handshake::Actions& actions);
    void ended(Connection& connection, const Handshake::Actions& actions);
    bool connect_qp(Connection& connection);
    void close(Connection& connection, Status status, const std::string& why);
    void tick(uint64_t now);
    void wake_at(uint64_t time) {
        urgent_ = kUrgent;
        if (time < deadline_) deadline_ = time;
    }

    ConnectorSettings settings_;
    QueuePairs queue_pairs_;
    std::unique_ptr<Datagrams> datagrams_;
    PeerAddress self_;
    ConnectorOwner& owner_;
    Acceptor acceptor_;
    Probes probes_;
    ConnectionTable table_;
    Peers peers_;
    Admission admission_;
    std::vector<Connection*> over_;  // failed; has room for all
    bool destroying_ = false;        // within destroy_closed()
    RetiredQueuePairs retired_;
    uint64_t deadline_ = UINT64_MAX;
    uint32_t urgent_ = 0;  // calls of progress() that are left of kUrgent
    // Peers whose connection has ended, but which may still have endpoints to this interface.
    PeerSet acquainted_;
    PeerSet left_;                // peers whose interface is closed
    std::deque<Packet> packets_;  // received and not handled yet
    size_t gathered_ = 0;         // of these, for progress()
};

}  // namespace tern
