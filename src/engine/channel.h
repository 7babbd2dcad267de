// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "connection/connection.h"
#include "engine/notify_words.h"
#include "engine/send_pool.h"
#include "veloblock/promotion.h"
#include "veloblock/receive_path.h"
#include "veloblock/send_path.h"
#include "verbs/memory.h"

namespace tern {

// What was sent over a connection that is still being made, in order: copies in buffers of the send
// pool, which the owner takes, and gives back. Frames are not made before they are posted, since
// they say what has gone before them. Control path.
class Backlog {
  public:
    enum class Kind : uint8_t {
        kMessage,  // `length` bytes behind the place of the frame's word
        kWrite,    // `length` bytes to be written to `to` of the peer's memory
        kAtomic,   // on a word at `to`; `cookie` is to be told when it is over
        kFence,    // what comes behind it begins when all atomics before it are complete
        kFlush,    // `cookie` is to be told when all before it has arrived
    };
    struct Entry {
        Kind kind = Kind::kMessage;
        uint32_t id = 0;
        uint32_t length = 0;
        uint32_t rkey = 0;
        uint64_t to = 0;
        SendPool::Buffer* buffer = nullptr;
        void* cookie = nullptr;
        const void* user = nullptr;  // kFlush: whose it is
        // kAtomic
        ibv_wr_opcode opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        uint64_t compare_add = 0;
        uint64_t swap = 0;
        ibv_sge result{};
    };

    bool empty() const { return entries_.empty(); }
    // Work requests that it will be.
    uint32_t sends() const { return sends_; }

    void add(const Entry& entry) {
        sends_ += entry.kind != Kind::kFlush;
        entries_.push_back(entry);
    }
    // Whether one of the atomics has a cookie of this kind.
    template <class Is>
    bool any_cookie(Is&& is) const {
        return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
            return entry.kind == Kind::kAtomic && is(entry.cookie);
        });
    }
    // A flush of `user`'s, which is not to wait any longer.
    bool drop_flush(const void* user, void*& cookie) {
        const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
            return entry.kind == Kind::kFlush && entry.user == user;
        });
        if (found == entries_.end()) return false;
        cookie = found->cookie;
        entries_.erase(found);
        return true;
    }
    // Takes all of it off, and keeps no memory.
    std::vector<Entry> take() {
        sends_ = 0;
        return std::exchange(entries_, {});
    }

  private:
    uint32_t sends_ = 0;
    std::vector<Entry> entries_;
};

// A connection with both directions' fast paths.
struct Channel final : Connection {
    using Connection::Connection;

    // Control frames that are to be sent as soon as there is room.
    enum Due : uint8_t {
        kCreditDue = 1,
        kGrantDue = 2,
        kRevokeDue = 4,
        kReleaseDue = 8,
        kNotifyDue = 16,  // where the word is that `notify` points to
    };

    SendPath tx;
    uint64_t block_address = 0;  // of the peer's block
    uint32_t block_rkey = 0;
    const uint32_t* notify = &notify::kNever;  // a word as notify_words.h says; never null
    bool stalled = false;                      // waits for credit; counted once
    uint16_t stalls = 0;                       // sends refused since
    uint32_t last_bcopy = 0;                   // length, as a guess at the next one's

    ReceivePath rx;
    uint32_t hot_index = 0;  // in the engine's list of blocks to poll
    bool polled = false;     // is in that list
    Promotion::Peer activity;
    uint32_t wish = 0;  // size of the next block to grant

    NotifyWords::Word notify_word;  // the one that the peer may write to, if any
    // As the reader of a block that is polled: the peer's word, 0 if it has not told where it is,
    // what has been written to it last, and whether the peer's writes have shown since that it has
    // seen that.
    uint64_t peer_word = 0;
    uint32_t peer_word_rkey = 0;
    uint16_t telling = 0;
    bool heeds = false;
    bool always = false;  // it notifies without being asked

    uint32_t replies = 0;  // reads and atomics under way: what is posted behind may overtake them

    // Operations of the layer above that have failed without it, and how the last one did.
    uint32_t failures = 0;
    Status failure = Status::kOk;

    Backlog backlog;      // empty once it is up
    uint8_t due = 0;      // of Due
    bool listed = false;  // in the engine's list of those with something due
    verbs::RegisteredMemory block;
    std::vector<void*> users;  // the endpoints
};

}  // namespace tern
