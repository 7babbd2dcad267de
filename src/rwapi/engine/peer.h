// SPDX-License-Identifier: BSD-3-Clause
// Another process of the job, from the first use of it or the first message from it.
//
// | state     | event                                     | next      | by                        |
// |-----------|-------------------------------------------|-----------|---------------------------|
// | kNew      | first operation, or its wireup message    |           | Connector::connect        |
// |           |   the transport connects to interfaces    | kReady    |                           |
// |           |   it connects endpoint to endpoint        | kWireup   |                           |
// | kWireup   | both sides have connected their endpoints | kReady    | Connector::process_wireups|
// | any       | UCT reports an error, or a probe fails    | the same, | Peers::mark_failed        |
// |           |                                           | `failed`  |                           |
// | `failed`  | the next progress                         | kDead     | Engine::end_failed_peers  |
//
// Operations are posted in state kReady only; otherwise they wait. A failed peer never recovers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rwapi/core/credit.h"
#include "rwapi/engine/operation.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

enum class PeerState : uint8_t { kNew, kWireup, kReady, kDead };

// What a peer has published, and the connection to it. Connector owns it; others use `endpoint`.
struct Connection {
    bool address_known = false;  // the fields up to `wireup_address` are valid
    uint64_t incarnation = 0;    // of the peer's context; 0 until the address is known
    InterfaceAddress address;
    InterfaceAddress wireup_address;
    Endpoint endpoint;
    Endpoint wireup_endpoint;     // for wireup messages; null: not needed
    bool connected = false;       // endpoint to endpoint: this side
    bool peer_connected = false;  // and the peer's side
    bool wireup_due = false;      // a wireup message is to be sent
    bool posts = false;           // Peer::can_post(), which sets it
};

// Requests for keys. RemoteRegions owns it.
struct PeerKeys {
    std::optional<uint64_t> awaited;    // name of a region whose key the peer was asked for
    std::optional<uint64_t> requested;  // name of a region whose key the peer awaits
};

struct Peer {
    uint32_t node = 0;
    PeerState state = PeerState::kNew;  // set_state() changes it
    bool has_work = false;              // Peers: is in the list for progress
    bool failed = false;       // Peers, by fail(): is in the list of failed peers, or kDead
    bool heard = false;        // Peers, Operations: a message or a completion of it has come
    bool death_told = false;   // Engine: by peer_status()
    bool left = false;         // Peers: it has said that it sends nothing any more
    bool goodbye_due = false;  // SmallMessages: this process is to say so
    bool reported = false;     // Peers: an invalid message of it has been logged
    bool in_inbox = false;     // SmallMessages: the inbox has room for its messages
    ucs_status_t failure = UCS_OK;
    // Of an operation without id, or whose id nobody has asked for; the next flush returns it. The
    // first one, if there are several.
    int unreported_error = RWAPI_OK;
    Connection connection;
    PeerKeys keys;
    std::unordered_map<uint32_t, RemoteRegion*> regions;  // RemoteRegions: the latest by its index
    std::vector<uint64_t> stale_names;  // Notifications: the peer is to be told of these regions
    SmallSender sender;
    SmallReceiver receiver;
    // For the connection, a key or room in the send queue; in order. wait() and leave() change it.
    OperationList waiting;
    OperationList under_way;  // posted completely

    // Whether an operation may be posted now without overtaking another one.
    [[gnu::always_inline]] bool can_post() const {
        TERN_ASSERT(connection.posts == (state == PeerState::kReady && !failed && waiting.empty()));
        return connection.posts;
    }
    // Whether operations wait although the connection is there.
    bool is_blocked() const { return state == PeerState::kReady && !failed && !waiting.empty(); }
    void keep_error(int error) {
        if (unreported_error == RWAPI_OK) unreported_error = error;
    }
    int take_error() { return std::exchange(unreported_error, RWAPI_OK); }
    void set_state(PeerState next) {
        state = next;
        note();
    }
    void fail() {
        failed = true;
        note();
    }
    void wait(Operation& operation) {
        waiting.append(&operation);
        note();
    }
    void leave(Operation& operation) {
        waiting.remove(&operation);
        note();
    }
    // Whether nothing can be sent before an event comes: the peer's wireup message, a key, or the
    // end of a flush.
    bool awaits_event() const {
        if (connection.wireup_due || failed) return false;
        if (state == PeerState::kWireup) return true;
        const Operation* const first = waiting.first();
        if (state != PeerState::kReady || first == nullptr || goodbye_due || receiver.is_due() ||
            keys.requested || !stale_names.empty())
            return false;
        return first->stage == Stage::kFlush
                   ? first->outstanding
                   : keys.awaited && first->target.name != 0 && first->target.region == nullptr;
    }
    // Whether nothing has been sent to the peer, and nothing waits to be.
    bool is_unused() const { return state == PeerState::kNew && waiting.empty(); }

  private:
    void note() { connection.posts = state == PeerState::kReady && !failed && waiting.empty(); }
};

}  // namespace rwapi
