// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/send_pool.h"

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
    // Takes all of it off, and keeps no memory.
    std::vector<Entry> take() {
        sends_ = 0;
        return std::exchange(entries_, {});
    }

  private:
    uint32_t sends_ = 0;
    std::vector<Entry> entries_;
};

}  // namespace tern
