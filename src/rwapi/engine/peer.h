// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rwapi/core/credit.h"
#include "rwapi/core/messages.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

class Engine;
struct Peer;

// Memory of this process that the user has registered.
struct Mine {
    std::byte* address = nullptr;
    uint64_t length = 0;
    uct_mem_h memory = nullptr;
    uint64_t handle = 0;
    uint64_t counter = 0;  // handle; 0: none
    uint32_t users = 0;    // operations of this process
    int rights = 0;
    bool allocated = false;  // by rwapi_alloc
};

// Memory of a peer.
struct Remote {
    Key key;
    uct_rkey_bundle_t rkey{};
    Peer* peer = nullptr;
    uint64_t handle = 0;
    uint32_t users = 1;  // operations, and the handle until it is given back
    bool stale = false;  // its owner has said that it has gone
};

enum class Task : uint8_t { kPut, kGet, kSmall, kFlush, kFence, kFlushAll };

// How far an operation is.
enum class Stage : uint8_t {
    kData,      // nothing is posted
    kOrder,     // the notice must be ordered after the data
    kOrdering,  // a flush is under way for this
    kNotice,    // the notice is to be sent
    kPosted     // the rest is up to UCT
};

struct Operation {
    uct_completion_t completion;  // first: UCT gives it back
    Engine* engine;
    Peer* peer;
    Operation* next;  // in one of the peer's lists
    Operation* previous;
    Operation* parent;  // a kFlushAll
    uint32_t children;  // of a kFlushAll: not over
    Remote* remote;     // null: of `name`, whose key is not known
    uint64_t name;      // of a region
    uint64_t offset;
    std::byte* local;
    size_t length;
    size_t posted;        // of it, in pieces
    Mine* mine;           // the region of `local`; null: not registered by the user
    uct_mem_h temporary;  // registered for this operation
    Notice notice;
    rwapi_small small;
    int status;
    Task task;
    Stage stage;
    NoticeKind kind;
    bool outstanding;  // UCT will call `completion`
    bool known;        // somebody has the id
    bool abandoned;    // failed with its peer, before UCT gave it back
};

// A list of operations; they are in one list at most.
class OperationList {
  public:
    Operation* first() const { return first_; }
    bool empty() const { return first_ == nullptr; }
    void append(Operation* operation) {
        operation->next = nullptr;
        operation->previous = last_;
        (last_ != nullptr ? last_->next : first_) = operation;
        last_ = operation;
    }
    void remove(Operation* operation) {
        (operation->previous != nullptr ? operation->previous->next : first_) = operation->next;
        (operation->next != nullptr ? operation->next->previous : last_) = operation->previous;
        operation->next = operation->previous = nullptr;
    }

  private:
    Operation* first_ = nullptr;
    Operation* last_ = nullptr;
};

enum class PeerState : uint8_t { kNew, kWiring, kReady, kDead };

// Another process, from its first message on, in either direction.
struct Peer {
    uint32_t node = 0;
    PeerState state = PeerState::kNew;
    bool busy = false;                   // in Engine::busy_
    bool failed = false;                 // in Engine::failed_, or dead
    bool greeted = false;                // greeting and addresses are known
    bool sends = false;                  // the inbox has room for its messages
    bool complained = false;             // it has been reported for messages that make no sense
    bool connected = false;              // endpoint to endpoint: this side is
    bool peer_connected = false;         // and the other side is
    bool wire_due = false;               // the other side is to be told of this one
    bool key_asked = false;              // it owes a key
    std::optional<uint64_t> key_wanted;  // the name of a region whose key it waits for
    std::vector<uint64_t> refused;       // names of regions that have gone, which it is to be told
    ucs_status_t failure = UCS_OK;
    int lost = RWAPI_OK;  // the error of an operation that nobody asks for; the next flush tells
    Endpoint endpoint;
    Endpoint wire;
    OperationList waiting;    // for the connection, a key or room, in order
    OperationList under_way;  // posted completely
    SmallSender sender;
    SmallReceiver receiver;
    Greeting greeting{};
    InterfaceAddress address;
    InterfaceAddress wire_address;

    // Keys that were asked for, by index: a region that takes a place of another replaces its key.
    struct KnownKey {
        uint32_t generation;
        uint64_t region;  // handle; 0: there is no such region
    };
    std::unordered_map<uint32_t, KnownKey> keys;

    // What is posted now overtakes nothing.
    bool takes_now() const { return state == PeerState::kReady && waiting.empty(); }
    // Nothing has been sent to it, and nothing is to be.
    bool unused() const { return state == PeerState::kNew && waiting.empty(); }
};

}  // namespace rwapi
