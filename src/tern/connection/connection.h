// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tern/connection/handshake.h"
#include "tern/connection/hearing.h"
#include "tern/connection/send_queue.h"
#include "tern/verbs/handles.h"

namespace tern {

enum class Status : uint8_t {
    kOk,
    kInProgress,
    kNoResource,
    kTimedOut,         // no answer from the peer
    kConnectionReset,  // the connection is lost
    kRefused,          // the peer does not accept the connection
    kPeerClosed,       // the peer's interface is closed, before the connection was up
    kRemoteAccess,     // the access to the peer's memory is not allowed
    kProtocol,         // the peer violates the protocol, or has another version of it
    kDevice,           // the device of this side has failed, or its memory is exhausted
    kCanceled,
};

// A reliable connection to a peer interface. It serves both directions, whichever side began it.
// What every send needs comes first, in one cache line.
struct alignas(64) Connection {
    Connection(uint32_t own_index, const PeerAddress& peer_address, const Handshake& fresh)
        : index(own_index), peer(peer_address), handshake(fresh) {}
    virtual ~Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    bool up() const { return handshake.state() == Handshake::State::kUp; }
    // The status for the users of a failed connection: that the peer has ended it is no error if
    // nothing of a user was lost; that the peer does not answer is one in any case. Final once
    // nothing is outstanding.
    Status outcome() const {
        return status == Status::kConnectionReset && !sends.users_lost() ? Status::kOk : status;
    }
    // Whether control frames and transfers can be sent: the connection is up, or ends in good
    // order.
    bool carries() const { return established && !failed; }

    verbs::QueuePair qp;  // null: the connection waits for room; see Connector
    uint64_t tag = 0;     // index and generation, placed as in work request ids
    SendQueue sends;      // takes no data while the connection is not up
    // The places that the writes of transfers leave free (SendQueue::reserve()); these writes
    // continue while the connection drains.
    uint32_t transfer_reserve = SendQueue::kAllPlaces;
    uint32_t index;  // in the connector's table; part of every work request's id
    PeerAddress peer;
    Handshake handshake;
    uint64_t due = UINT64_MAX;  // of Timers
    bool last_receive = false;  // the device has reported the last receive of `qp`
    // Over, in good order too: sends nothing more, and waits for its last completions. What has
    // come is still taken.
    bool failed = false;
    Hearing hearing;              // until that is done
    bool to_mark = false;         // needs a work request behind its last one
    Status status = Status::kOk;  // why the connection is over
    std::string why;              // the same, for the log
    bool established = false;     // has been up
    uint32_t attempts = 0;        // to connect, dropped by the peer
    // While it has no queue pair, and until it is up.
    struct Wait {
        uint64_t since = 0;           // nanoseconds; 0: it has never waited
        uint64_t begun = 0;           // the present attempt
        uint64_t heard = 0;           // the last sign of life of a peer that has not answered
        uint64_t interval = 0;        // between attempts that the peer has refused
        uint64_t next = 0;            // when the next one is due
        Status status = Status::kOk;  // if it waits in vain
        bool for_peer = false;        // the peer has asked for it, and no user of this side
        bool unanswered = false;      // nothing has come from the peer, whom this side has asked
    } wait;
    bool ending = false;     // in good order, as soon as nothing is outstanding
    uint32_t transfers = 0;  // of the layer above; the connection ends in good order after them
    // Operations to the peer on other queue pairs, which end by themselves. The connection is not
    // destroyed before, even if it has failed.
    uint32_t holds = 0;
};

// The counts of SendQueue that a send changes come first in it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(Connection, sends) + SendQueue::kHotBytes <= 64);
#pragma GCC diagnostic pop

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
    // Whether it is wanted, or has users, whose operations wait elsewhere.
    virtual bool used(const Connection& connection) const = 0;
    // The connection is up: data may be sent.
    virtual void established(Connection& connection) = 0;
    // The peer ends the connection. The owner calls finish_if_idle() when nothing is outstanding
    // and the transfers are over.
    virtual void draining(Connection& connection) = 0;
    // The peer could do without the connection, which is up.
    virtual void spare(Connection& connection) = 0;
    // Posts a signaled work request that has no effect.
    virtual void post_marker(Connection& connection) = 0;
    // The frames that this side has sent on the connection so far.
    virtual SentFrames sent(const Connection& connection) const = 0;
    // Whether all these frames of the peer have been delivered, or it is not heard any more.
    virtual bool has_taken(const Connection& connection, const SentFrames& sent) const = 0;
    // The connection is over and will be destroyed. kOk: no user has lost anything.
    virtual void closed(Connection& connection, Status status, const std::string& why) = 0;
    // The connection to the peer has to wait for room on this side's device. Called for the first
    // such peer only.
    virtual void waits(const PeerAddress& peer, const std::string& why) = 0;
    // Monotonic, in nanoseconds. For any thread.
    virtual uint64_t now() = 0;

  protected:
    ~ConnectorOwner() = default;
};

}  // namespace tern
