// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets, by an rkey of the peer's, that take one work request: neither the peer is asked
// nor memory pinned. Short ones go through a buffer of the send pool. Longer ones go in place, if
// the user's memory is pinned from before. All others are transfers. Data path.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "connection/cookie.h"
#include "engine/engine.h"
#include "rendezvous/buffers.h"
#include "rendezvous/receives.h"

namespace tern {

class Rma {
  public:
    Rma(Engine& engine, PinCache& pins) : engine_(engine), pins_(pins) {}
    Rma(const Rma&) = delete;
    Rma& operator=(const Rma&) = delete;

    /// What the user's memory is, and how long in all; at most Buffers::kMost pieces.
    struct Memory {
        std::span<const Buffers::Piece> pieces;
        size_t length;
    };
    /// The peer's.
    struct Remote {
        uint64_t address;
        uint32_t rkey;  ///< of open memory; to read, also of a message's; 0: none
    };

    /// These return nothing if the operation has to be a transfer. kInProgress: `cookie`, if any,
    /// is completed later. kOk: the put is over for its user. kNoResource: try again.
    std::optional<Status> put(Channel& channel, const Memory& from, const Remote& to, void* cookie);
    std::optional<Status> get(Channel& channel, const Memory& to, const Remote& from, void* cookie);
    /// `unpack` is given the bytes before `cookie` is completed.
    std::optional<Status> get(Channel& channel, size_t length, const Remote& from, Unpack unpack,
                              void* argument, void* cookie);

    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kRma; }
    /// Ends an operation: gives the bytes of a get to the user if `good`. Returns the user's
    /// cookie.
    void* done(void* cookie, bool good);

    uint32_t under_way() const { return under_way_; }

  private:
    static constexpr size_t kLongest = 1 << 20;  // bytes in place: longer ones take turns

    struct alignas(8) Operation {
        Channel* channel = nullptr;
        bool reads = false;
        void* cookie = nullptr;              // the user's
        Pin* pin = nullptr;                  // of an operation in place
        SendPool::Buffer* buffer = nullptr;  // of a get through a buffer, like the rest
        uint32_t length = 0;
        Unpack unpack = nullptr;  // null: the bytes go to `to`
        void* argument = nullptr;
        Buffers to;
    };

    bool is_short(const Channel& channel, size_t length, uint32_t rkey) const {
        return rkey != 0 && length <= engine_.settings().segment_size && channel.up();
    }
    Operation* take(Channel& channel, void* cookie);
    Status copy(Operation& operation, size_t length, const Remote& from);
    std::optional<Status> in_place(Channel& channel, const Memory& memory, const Remote& remote,
                                   bool reads, void* cookie);

    Engine& engine_;
    PinCache& pins_;
    std::deque<Operation> operations_;  // as many as there were under way at a time
    std::vector<Operation*> free_;
    uint32_t under_way_ = 0;
};

}  // namespace tern
