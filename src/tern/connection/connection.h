// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
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

}  // namespace tern
