// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tern/connection/connection.h"
#include "tern/connection/connection_table.h"
#include "tern/connection/datagrams.h"
#include "tern/connection/ended_connections.h"
#include "tern/connection/new_connections.h"
#include "tern/connection/packet.h"
#include "tern/connection/peers.h"
#include "tern/connection/probes.h"
#include "tern/connection/timers.h"
#include "tern/verbs/port.h"

namespace tern {

struct ConnectorSettings {
    verbs::QueueSizes queues;           // `sends`: of a long send queue
    uint32_t later_sends = 0;           // places of a later one
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
//   waits   open, but without a queue pair, as the device of this side or of the peer has no room:
//           it tries again, for as long as an attempt to connect may take. Of those that wait for
//           this side, only the first of RoomQueue does, and IdleChannels ends others meanwhile. A
//           peer that is refused waits there too, and is connected to in its turn; and one that
//           refuses gives this side's room to others first
//   failed  over, in good order too: in ConnectionTable until EndedConnections destroys it
class Connector {
  public:
    // What every connection uses.
    struct Parts {
        ibv_pd* pd;
        const verbs::Port& port;
        ibv_cq* cq;
        ibv_srq* srq;
    };
    Connector(const Parts& parts, const ConnectorSettings& settings,
              std::unique_ptr<Datagrams> datagrams, const PeerAddress& self, ConnectorOwner& owner);
    // Ends all connections at once, and notifies all peers that may have endpoints to this
    // interface. No thread may be in answer().
    ~Connector();
    Connector(const Connector&) = delete;
    Connector& operator=(const Connector&) = delete;

    // The connection to `peer`, begun if there is none. While a connection is ending, the next one,
    // which begins when the first is over. To a peer that has left, one that fails at once. Null on
    // failure; `why` has the reason.
    Connection* connect(const PeerAddress& peer, std::string& why);
    // Whether there is a connection to `peer`, whichever side began it, that is up.
    bool is_up(const PeerAddress& peer) const {
        const Connection* const known = peers_.current(peer);
        return known != nullptr && known->up() && known->sends.open();
    }
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
    // Peers that ask for a connection are refused from now on.
    void close() { new_.admission().close(); }
    // Ends all connections at once.
    void fail_all(Status status, const std::string& why);
    // To be called for data that comes over a connection that is not up.
    void data_arrived(Connection& connection);
    // To be called when an operation completes on a connection that is closing or draining.
    void finish_if_idle(Connection& connection);
    // See EndedConnections::destroy().
    unsigned destroy_closed();
    // Connections that are over, and queue pairs that outlive them.
    EndedConnections& ended() { return ended_; }

    // How many connections wait for room on this side's device.
    uint32_t waiting() const { return new_.queue().size(); }

    // Where connections are found. Data path.
    const ConnectionTable& table() const { return table_; }
    // Finds a connection that ConnectionTable::find() has not found: adopts accepted ones first.
    [[gnu::cold]] Connection* find_accepted(uint32_t qp_num);
    Datagrams& datagrams() const { return *datagrams_; }

  private:
    // Connections for which there is no room now (connector_room.cc).
    class Room {
      public:
        explicit Room(Connector& connector) : c_(connector) {}

        bool find_room(Connection*& connection, const PeerAddress& peer, std::string& why);
        void take_attempt(const Packet& packet);
        void on_not_connected(Connection& connection, int error);
        void wait_here(Connection& connection, const std::string& why,
                       Status status = Status::kDevice);
        void on_alive(Connection& connection);
        void wait_for_peer(Connection& connection, Status status, const std::string& why);
        bool give_way(Connection& connection, uint64_t now);
        bool equip(Connection& connection, std::string& why, bool at_once = false);
        void try_again(Connection& connection, uint64_t now);
        void wake_first();

      private:
        uint64_t wait_limit(const Connection& connection) const;
        bool take_room_of_attempt();
        void wait_again(Connection& connection);

        Connector& c_;
    };

    void handle(const Packet& packet);
    void on_left(const PeerAddress& peer);
    void on_spare(const Packet& packet);
    void on_unreachable(const PortAddress& port, int error);
    void begin_handshake(Connection& connection, uint64_t now);
    void act(Connection& connection, const Handshake::Actions& actions);
    void on_closed(Connection& connection, const Handshake::Actions& actions);
    void begin_anew(Connection& connection);
    void turn_away(Connection& connection);
    void close(Connection& connection, Status status, const std::string& why);
    void on_deadline(Connection& connection, uint64_t now);
    void look_at(Connection& connection, uint64_t now);
    void tick(uint64_t now);

    std::unique_ptr<Datagrams> datagrams_;
    PeerAddress self_;
    ConnectorOwner& owner_;
    HandshakeTimes times_;
    Alarm alarm_;
    Probes probes_;
    PacketInbox<Datagrams> inbox_;
    FormerPeers former_;
    ConnectionTable table_;
    Timers timers_;
    Peers peers_;
    EndedConnections ended_;
    NewConnections new_;
    Room room_{*this};
};

}  // namespace tern
