// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "connection/connection.h"
#include "engine/send_pool.h"
#include "engine/writer_words.h"
#include "veloblock/promotion.h"
#include "veloblock/receive_path.h"
#include "veloblock/send_path.h"
#include "verbs/memory.h"

namespace tern {

// The sends that wait for their connection to come up, in order: copies in buffers of the send
// pool, which the owner takes and gives back. A frame's word is written when the frame is posted,
// since it counts the frames before it. Control path.
class Backlog {
  public:
    enum class Kind : uint8_t {
        kMessage,  // `length` bytes of payload, after a place for the frame's word
        kWrite,    // `length` bytes, to be written to `to` in the peer's memory
        kAtomic,   // on the word at `to`; `cookie` is to be told when it is over
        kFence,    // entries after it begin when all atomics before it are complete
        kFlush,    // `cookie` is to be told when all entries before it have arrived
    };
    struct Entry {
        Kind kind = Kind::kMessage;
        uint32_t id = 0;
        uint32_t length = 0;
        uint32_t rkey = 0;
        uint64_t to = 0;
        SendPool::Buffer* buffer = nullptr;
        void* cookie = nullptr;
        const void* user = nullptr;  // kFlush: the endpoint
        // Of kAtomic:
        ibv_wr_opcode opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        uint64_t compare_add = 0;
        uint64_t swap = 0;
        ibv_sge result{};
    };

    bool empty() const { return entries_.empty(); }
    // The number of work requests that the entries need.
    uint32_t sends() const { return sends_; }

    void add(const Entry& entry) {
        sends_ += entry.kind != Kind::kFlush;
        entries_.push_back(entry);
    }
    // Whether an atomic has a cookie that `is` accepts.
    template <class Is>
    bool any_cookie(Is&& is) const {
        return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
            return entry.kind == Kind::kAtomic && is(entry.cookie);
        });
    }
    // Removes one flush of `user`, and returns its cookie. False: there is none.
    bool drop_flush(const void* user, void*& cookie) {
        const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
            return entry.kind == Kind::kFlush && entry.user == user;
        });
        if (found == entries_.end()) return false;
        cookie = found->cookie;
        entries_.erase(found);
        return true;
    }
    // Removes and returns all entries; the backlog keeps no memory.
    std::vector<Entry> take() {
        sends_ = 0;
        return std::exchange(entries_, {});
    }

  private:
    uint32_t sends_ = 0;
    std::vector<Entry> entries_;
};

// A connection with the fast paths of both directions.
struct Channel final : Connection {
    using Connection::Connection;

    // Control frames to be sent as soon as the send queue has room.
    enum Due : uint8_t {
        kCreditDue = 1,
        kOfferDue = 2,
        kRevokeDue = 4,
        kReleaseDue = 8,
        kWordsDue = 16,  // the address of `words`
        kCreditRequestDue = 32,   // for credit
    };

    // The second cache line of a send to a hot peer; the first is the connection's. What a send in
    // the usual case does not need is behind it.
    alignas(64) uint64_t block_address = 0;  // of the peer's block
    // The notify word in use (writer_words.h); never null.
    const uint32_t* notify = &notify::kNever;
    uint32_t block_rkey = 0;
    bool stalled = false;  // a send found the block full, and none has entered it since
    SendPath tx;
    uint16_t stalls = 0;          // sends refused since `stalled`
    bool listed_stalled = false;  // is in Engine::stalled_channels_
    bool called = false;          // for credit, since it stalled
    uint32_t last_bcopy = 0;      // length, to guess that of the next one
    uint32_t credit_taken = 0;    // the last value of its credit word
    WriterWords::Words words;     // which the peer may write to, if any

    // The cache line of the receiving side. Sends take the credit from it.
    alignas(64) ReceivePath rx;
    // Whether to poll memory for the peer's writes rather than the completion queue. Decided when
    // the connection comes up: the answer is the device's, and stays the same.
    bool polls_memory = false;
    uint32_t hot_index = 0;  // its place in Engine::polled_
    bool polled = false;     // is in Engine::polled_
    Promotion::Peer activity;
    uint32_t requested_block_bytes = 0;  // bytes of the next block to offer; 0: the first size

    // For a block that this side polls: how it tells the writer to notify, and of credit.
    uint64_t peer_words = 0;  // address of the peer's words; 0: not known
    uint32_t peer_words_rkey = 0;
    bool calls = false;    // the peer waits for a frame with credit
    uint16_t telling = 0;  // the last value written to it
    bool heeds = false;    // the peer has notified with that value
    bool always = false;   // the peer notifies without being told

    uint32_t replies = 0;  // reads and atomics under way, which later work requests may overtake
    // For the rendezvous: whether the peer could read the message that was announced to it last,
    // and whether it asks for such messages nevertheless, because its buffers are new.
    bool readable = false;
    bool fetches = false;

    // Operations of the layer above that have failed while the connection has not, and the status
    // of the last one.
    uint32_t failures = 0;
    Status failure = Status::kOk;

    Backlog backlog;      // empty once the connection is up
    uint8_t due = 0;      // set of Due
    bool listed = false;  // is in Engine::due_channels_
    verbs::RegisteredMemory block;
    std::vector<void*> users;  // the endpoints
};

}  // namespace tern
