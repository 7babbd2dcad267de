// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "connection/alarm.h"
#include "connection/connection_table.h"
#include "connection/connector_owner.h"
#include "connection/datagrams.h"
#include "connection/ended_connections.h"
#include "connection/former_peers.h"
#include "connection/new_connections.h"
#include "connection/packet_inbox.h"
#include "connection/peers.h"
#include "connection/probes.h"
#include "connection/timers.h"
#include "verbs/port.h"

namespace tern {

struct ConnectorSettings {
    verbs::QueueSizes queues;           // `sends`: of a long send queue
    uint32_t short_sends = 0;           // places of a short one
    uint32_t long_queues = UINT32_MAX;  // see SendQueues
    verbs::RetrySettings retry;
    HandshakeTimes times;  // nanoseconds
};

// Makes connections through the handshake, and ends them. Control path. One thread at a time,
// except answer().
//
// The life of a connection: Handshake has the states of its protocol. Besides,
//
//   open    in ConnectionTable and Peers: made by NewConnections
//   failed  over, in good order too: in ConnectionTable until EndedConnections destroys it
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
        probes_.begin(peer, cookie, now, former_.has_left(peer));
        alarm_.wake_at(now);
    }
    Probes& probes() { return probes_; }

    // Packets, to be gathered for progress().
    PacketInbox<Datagrams>& inbox() { return inbox_; }
    // Handles the packets that were gathered, and deadlines. Returns how many packets were handled.
    // The caller must take the data that has come over the connections before, but after the
    // packets were gathered.
    unsigned progress();
    // For the background thread: answers peers, and accepts connections, which the owner adopts
    // later.
    void answer() { datagrams_->answer(new_.acceptor(), owner_.now()); }
    // Enters connections that were accepted in the background into the tables.
    void adopt() {
        if (new_.acceptor().has_accepted()) new_.adopt();
    }

    uint64_t now() const { return owner_.now(); }

    // When progress() is needed even if no packet comes, in nanoseconds; UINT64_MAX: never.
    uint64_t deadline() const { return alarm_.deadline(); }

    // Recomputes deadline(), which may be too early after an answer.
    void look_at_deadlines();

    // Whether datagrams should be polled soon: a packet of a handshake or probe has been sent or
    // received a short time ago, or a connection is over. Data path.
    bool urgent() const { return alarm_.urgent(); }

    // Ends a connection in good order, as soon as nothing is outstanding. One that the peer has not
    // answered yet ends at once, unless operations wait for it. `patient`: see Handshake.
    void disconnect(Connection& connection, bool patient = false);
    // Ends a connection that is up and idle, so that the next one, which begins then, has a long
    // send queue. False: the device or memory has no room for it.
    bool lengthen(Connection& connection);
    // Tells the peer that this side could do without the connection, which is up. The packet may be
    // lost.
    void suggest_end(const Connection& connection) {
        datagrams_->send(connection.handshake.spare(), connection.peer.port);
    }
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
    // See EndedConnections::destroy().
    unsigned destroy_closed();
    // Connections that are over, and queue pairs that outlive them.
    EndedConnections& ended() { return ended_; }

    // Where connections are found. Data path.
    const ConnectionTable& table() const { return table_; }
    // As ConnectionTable::find(), after that has returned null: adopts connections first.
    [[gnu::cold]] Connection* find_accepted(uint32_t qp_num);
    Datagrams& datagrams() const { return *datagrams_; }

  private:
    static constexpr uint32_t kMostAttempts = 16;       // at one connection, dropped by the peer
    static constexpr uint64_t kFarewell = 100'000'000;  // nanoseconds, for all peers

    void handle(const Packet& packet);
    void take_attempt(const Packet& packet);
    void on_left(const PeerAddress& peer);
    void on_spare(const Packet& packet);
    void on_unreachable(const PortAddress& port, int error);
    void begin_handshake(Connection& connection, uint64_t now);
    void act(Connection& connection, const Handshake::Actions& actions);
    void on_closed(Connection& connection, const Handshake::Actions& actions);
    bool begin_anew(Connection& connection);
    void turn_away(Connection& connection);
    void close(Connection& connection, Status status, const std::string& why);
    void on_deadline(Connection& connection, uint64_t now);
    void look_at(Connection& connection, uint64_t now);
    void tick(uint64_t now);

    std::unique_ptr<Datagrams> datagrams_;
    PeerAddress self_;
    ConnectorOwner& owner_;
    Alarm alarm_;
    Probes probes_;
    PacketInbox<Datagrams> inbox_;
    FormerPeers former_;
    ConnectionTable table_;
    Timers timers_;
    Peers peers_;
    EndedConnections ended_;
    NewConnections new_;
};

}  // namespace tern
