// SPDX-License-Identifier: BSD-3-Clause
// Short gets from open memory: the device reads into a buffer of the send pool, whose bytes are
// then copied to the user. Neither memory nor the peer is asked. Data path.
#pragma once

#include <deque>
#include <vector>

#include "connection/cookie.h"
#include "engine/engine.h"
#include "rendezvous/buffers.h"
#include "rendezvous/receives.h"

namespace tern {

class CopiedGets {
  public:
    explicit CopiedGets(Engine& engine) : engine_(engine) {}
    CopiedGets(const CopiedGets&) = delete;
    CopiedGets& operator=(const CopiedGets&) = delete;

    /// Whether a get can go this way: `rkey` is of open memory, and the connection is up.
    bool takes(const Channel& channel, uint64_t length, uint32_t rkey) const {
        return rkey != 0 && length <= engine_.settings().segment_size && channel.up();
    }
    /// Gets `length` bytes, which `unpack` is given before `cookie`, if any, is completed.
    /// kInProgress, or as Engine::read_copy().
    Status get(Channel& channel, size_t length, uint64_t from, uint32_t rkey, Unpack unpack,
               void* argument, void* cookie);
    /// The same into the user's memory.
    Status get(Channel& channel, std::span<const Buffers::Piece> to, uint64_t from, uint32_t rkey,
               void* cookie);

    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kCopiedGet; }
    /// Ends a get: gives the bytes to the user if `good`. Returns the user's cookie.
    void* done(void* cookie, bool good);

    uint32_t under_way() const { return under_way_; }

  private:
    struct alignas(8) Get {
        Channel* channel = nullptr;
        SendPool::Buffer* buffer = nullptr;
        uint32_t length = 0;
        Unpack unpack = nullptr;  // null: the bytes go to `to`
        void* argument = nullptr;
        Buffers to;
        void* cookie = nullptr;
    };

    Get* take();
    Status post(Get& get, Channel& channel, size_t length, uint64_t from, uint32_t rkey);

    Engine& engine_;
    std::deque<Get> gets_;  // as many as there were under way at a time
    std::vector<Get*> free_;
    uint32_t under_way_ = 0;
};

}  // namespace tern
