// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "connection/handshake.h"
#include "connection/send_queue.h"
#include "verbs/handles.h"

namespace tern {

enum class Status : uint8_t {
    kOk,
    kInProgress,
    kNoResource,
    kTimedOut,         // no answer from the peer
    kConnectionReset,  // the peer has gone
    kRefused,          // the peer does not want to be connected to
    kRemoteAccess,     // the peer's memory may not be accessed like this
    kProtocol,         // the peer sends what makes no sense
    kDevice,           // this side's device or memory fails
    kCanceled,
};

// One reliable connection to a peer interface, in either direction, whoever of the two began it.
struct Connection {
    Connection(uint32_t own_index, const PeerAddress& peer_address, const Handshake& fresh)
        : index(own_index), peer(peer_address), handshake(fresh) {}
    virtual ~Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    bool up() const { return handshake.state() == Handshake::State::kUp; }
    // What the users of one that has failed are to hear: that a peer has gone is no error to who
    // has lost nothing by it. Final once nothing is outstanding.
    Status outcome() const {
        const bool gone =
            status == Status::kConnectionReset || (status == Status::kTimedOut && established);
        return gone && !sends.users_lost() ? Status::kOk : status;
    }
    // Control frames and transfers still go: it is up, or ends in good order.
    bool carries() const { return established && !failed; }

    static constexpr uint32_t kAllPlaces = UINT32_MAX;

    uint32_t index;    // in the connector's table; part of every work request's id
    uint64_t tag = 0;  // index and generation, in the place that work request ids have them
    PeerAddress peer;
    verbs::QueuePair qp;
    SendQueue sends;
    // Data is refused while no more than this many places are left in the send queue: they are for
    // control frames. All places while the connection is not up.
    uint32_t reserve = kAllPlaces;
    // The same for transfers, which come to their end while the connection does.
    uint32_t transfer_reserve = kAllPlaces;
    Handshake handshake;
    bool seen_over = false;       // has been over for one round at least
    bool failed = false;          // out of the peer table; waits for its last completions
    Status status = Status::kOk;  // why it has failed, with the text for the log
    std::string why;
    bool established = false;  // was up once
    uint32_t attempts = 0;     // to make it, that the peer has dropped
    bool closing = false;      // to be disconnected as soon as nothing is outstanding
    uint32_t transfers = 0;    // of the layer above; it is not disconnected while there are any
    // What goes to the peer by other queue pairs and ends by itself. The connection, however it
    // ends, lasts until then.
    uint32_t holds = 0;
};

}  // namespace tern
