// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "common/make_room.h"
#include "tern/engine/send_pool.h"

namespace tern {

// The sends that wait for their connection to come up, in order: copies in buffers of the send
// pool, which EarlySends takes and gives back. A frame's word is written when the frame is posted,
// since it counts the frames before it. Control path.
class Backlog {
  public:
    enum class Kind : uint8_t {
        kMessage,  // `length` bytes of payload, after a place for the frame's word
        kWrite,    // `length` bytes, to be written to `to` in the peer's memory
        kAtomic,   // on the word at `to`; `cookie` is to be reported when it is over
        kFence,    // entries after it begin when all atomics before it are complete
        kFlush,    // `cookie` is to be reported when all entries before it have arrived
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
        // Only in an operation of the kind kAtomic:
        ibv_wr_opcode opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        uint64_t compare_add = 0;
        uint64_t swap = 0;
        ibv_sge result{};
    };

    bool empty() const { return entries_.empty(); }
    // The number of work requests that the entries need.
    uint32_t sends() const { return sends_; }

    // Room for one more entry, so that add() cannot throw. False: there is no memory.
    bool make_room() noexcept try {
        base::make_room(entries_, entries_.size() + 1);
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
    void add(const Entry& entry) {
        entries_.push_back(entry);
        sends_ += entry.kind != Kind::kFlush;
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

}  // namespace tern
