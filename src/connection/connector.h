// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "connection/acceptor.h"
#include "connection/connection.h"
#include "connection/datagrams.h"
#include "connection/work_request_id.h"
#include "verbs/port.h"

namespace tern {

struct ConnectorSettings {
    verbs::QueueSizes queues;
    verbs::RetrySettings retry;
    HandshakeTimes times;  // nanoseconds
};

// What the owner of a connector does for it. Control path.
class ConnectorOwner {
  public:
    // Makes the connection object (a class of the owner's). Must not fail.
    virtual std::unique_ptr<Connection> make_connection(uint32_t index, const PeerAddress& peer,
                                                        const Handshake& handshake) = 0;
    // The completion queue must hold `sends` entries of send queues. False if it cannot.
    virtual bool reserve_completions(uint32_t sends) = 0;
    // Whether something waits for this connection to be made, which never was: if the peer drops
    // the attempt there is to be another one.
    virtual bool wanted(const Connection& connection) const = 0;
    // Data may be sent.
    virtual void established(Connection& connection) = 0;
    // The peer wants the connection to end: call finish_if_idle once nothing is outstanding, and
    // transfers are over.
    virtual void draining(Connection& connection) = 0;
    // Posts one signaled work request that does nothing.
    virtual void post_marker(Connection& connection) = 0;
    // The connection is over and will be destroyed. kOk: nothing of the user's was lost.
    virtual void closed(Connection& connection, Status status, const std::string& why) = 0;
    // A peer cannot be connected to; told once.
    virtual void refused(const PeerAddress& peer, const std::string& why) = 0;
    // Monotonic, in nanoseconds. For any thread.
    virtual uint64_t now() = 0;

  protected:
    ~ConnectorOwner() = default;
};

// The peer table of an interface: finds connections, makes them through the handshake, and ends
// them. Control path, except find(). One thread at a time, but for answer().
class Connector {
  public:
    // `cq` and `srq` serve every connection.
    Connector(const verbs::Device& device, const verbs::Port& port,
              const ConnectorSettings& settings, std::unique_ptr<Datagrams> datagrams, ibv_cq* cq,
              ibv_srq* srq, const PeerAddress& self, ConnectorOwner& owner);
    // Ends all connections at once; the peers are told. Nobody is in answer() any more.
    ~Connector();
    Connector(const Connector&) = delete;
    Connector& operator=(const Connector&) = delete;

    // The connection to `peer`, which is begun if there is none. Where one is about to end it is
    // the next one, which begins then. Null if the device refuses; `why` says what.
    Connection* connect(const PeerAddress& peer, std::string& why);
    // Asks whether an interface is alive, without connecting. Only its silence is told, by
    // take_silent. One probe for a cookie at a time; further ones are part of it.
    void probe(const PeerAddress& peer, void* cookie);
    bool take_silent(void*& cookie);
    void forget_probe(void* cookie);

    // Handles one packet that has come, and what is due. Returns how many packets were handled.
    // What has come over the connections must have been taken before.
    unsigned progress();
    // For a thread in the background: tells peers that ask that this process is alive, and accepts
    // the connections of strangers, which the owner adopts when it comes to that.
    void answer() { datagrams_->answer(acceptor_, owner_.now()); }
    // Connections that were accepted in the background are like all others from now on.
    void adopt() {
        if (acceptor_.any()) adopt_all();
    }

    // When progress() is needed even if nothing comes, in nanoseconds; UINT64_MAX if not.
    uint64_t deadline() const { return deadline_; }

    // What was waited for may have come: deadline() is what it must be, at the cost of a look at
    // each connection, if there was one at all.
    void look_at_deadlines();

    // Datagrams should be looked at soon: a handshake is under way, or something is over.
    bool urgent() const { return deadline_ != UINT64_MAX || !over_.empty(); }
    // A packet is there.
    bool datagrams_waiting() { return waiting_ || (waiting_ = datagrams_->receive(packet_)); }

    // Ends a connection: in good order as soon as nothing is outstanding, or at once because it has
    // failed. `refusal`: what the peer is told if it was never established.
    void disconnect(Connection& connection);
    void fail(Connection& connection, Status status, const std::string& why,
              Refusal refusal = Refusal::kDevice);
    // Data has come over a connection.
    void data_arrived(Connection& connection);
    // To be called when a connection that closes or drains has completed something.
    void finish_if_idle(Connection& connection);
    // Tells of, and destroys, what is over and complete; returns how many. Never from within a
    // callback.
    unsigned destroy_closed();
    // There is something to do for it before what is outstanding completes.
    bool may_destroy_closed() const;

    // The connection with this queue pair number; null if there is none. Data path.
    Connection* find(uint32_t qp_num) const {
        const Slot& slot = by_qp_num_[qp_num & (by_qp_num_.size() - 1)];
        if (slot.qp_num == qp_num) return slot.connection;
        return slot.connection == nullptr ? nullptr : find_further(qp_num);
    }
    // The same for who has not found it: it may have been accepted in the background. Control path.
    [[gnu::cold]] Connection* find_accepted(uint32_t qp_num);
    // The connection of a send completion; null if it is gone.
    Connection* find_send(uint64_t id) const {
        const uint32_t index = work_request_id::index(id);
        Connection* connection = index < table_.size() ? table_[index].get() : nullptr;
        return connection != nullptr && connection->tag == work_request_id::tag(id) ? connection
                                                                                    : nullptr;
    }

    Datagrams& datagrams() { return *datagrams_; }
    uint32_t connections() const { return live_; }
    uint32_t most_connections() const { return most_; }
    template <class Visit>
    void for_each(Visit&& visit) {
        for (const auto& connection : table_)
            if (connection) visit(*connection);
    }

  private:
    struct Slot {
        uint32_t qp_num = 0;
        Connection* connection = nullptr;
    };
    struct Probe {
        PeerAddress peer;
        uint64_t next = 0;
        uint64_t limit = 0;
        void* cookie = nullptr;
    };

    static constexpr uint32_t kMostAttempts = 16;  // at a connection, that the peer drops

    Connection* begin(const PeerAddress& peer, std::string& why);
    Connection& enter(const PeerAddress& peer, verbs::QueuePair qp, const Handshake& handshake,
                      uint32_t sends);
    bool full() const;
    bool completions_for_one_more();
    void allow_accepting() { acceptor_.allow(!full() && !starved_); }
    void claim(const PeerAddress& peer);
    void release(const PeerAddress& peer);
    void adopt_all();
    void turn_away(Connection& connection);
    bool begin_anew(Connection& connection);
    bool may_connect(const Connection& connection) const;
    void handle(const Packet& packet);
    void take_attempt(const Packet& packet);
    void act(Connection& connection, const Handshake::Actions& actions);
    void ended(Connection& connection, const Handshake::Actions& actions);
    bool connect_qp(Connection& connection);
    void close(Connection& connection, Status status, const std::string& why);
    void leave_table(Connection& connection);
    void tick(uint64_t now);
    void tick_probes(uint64_t now);
    void wake_at(uint64_t time) {
        if (time < deadline_) deadline_ = time;
    }
    void index_qp(Connection& connection);
    void rebuild_index(size_t size);
    Connection* find_further(uint32_t qp_num) const;

    ConnectorSettings settings_;
    QueuePairs queue_pairs_;
    std::unique_ptr<Datagrams> datagrams_;
    PeerAddress self_;
    ConnectorOwner& owner_;
    Acceptor acceptor_;
    uint32_t generation_ = 0;
    uint32_t live_ = 0;
    uint32_t most_ = 0;
    uint64_t deadline_ = UINT64_MAX;
    Packet packet_;  // taken, but not handled yet, if waiting_
    bool waiting_ = false;
    bool told_ = false;     // of a refusal
    bool starved_ = false;  // of completions, when they were asked for last
    using Peers = std::unordered_map<PeerAddress, Connection*, PeerAddressHash>;
    Peers peers_;
    Peers next_;  // those that begin when the one in `peers_`, which ends, is over
    std::vector<std::unique_ptr<Connection>> table_;
    std::vector<uint32_t> free_;
    std::vector<Slot> by_qp_num_;  // power of two in size, linear probing, never full
    std::vector<Connection*> over_;
    std::vector<Probe> probes_;
    std::vector<void*> silent_;
};

}  // namespace tern
