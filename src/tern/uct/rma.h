// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets by an rkey of the peer's, of one work request each. The device accesses the user's
// memory if that is already pinned. Otherwise short operations use a buffer of the send pool; the
// memory of a get is pinned when it has been used so often that the pin pays. All other operations
// are transfers. The full frames of messages find and make pins in the same way. Data path.
#pragma once

#include <deque>
#include <optional>
#include <span>

#include "tern/connection/cookie.h"
#include "tern/engine/engine.h"
#include "tern/pinning/cache/held_pins.h"
#include "tern/pinning/regions/regions.h"
#include "tern/rendezvous/chunk_source.h"
#include "tern/rendezvous/decision.h"
#include "tern/rendezvous/transfer.h"

namespace tern {

class Rma {
  public:
    Rma(Engine& engine, PinCache& pins, const Decider& decider);
    Rma(const Rma&) = delete;
    Rma& operator=(const Rma&) = delete;

    // What the user's memory is, and how long in all; at most Buffers::kMost pieces.
    struct Memory {
        std::span<const Buffers::Piece> pieces;
        size_t length;
        const Region* region;  // of the first piece; null: not known
    };
    // The peer's.
    struct Remote {
        uint64_t address;
        uint32_t rkey;  // of open memory; to read, also of a message's; 0: none
    };

    // These return nothing if the operation has to be a transfer. kInProgress: `cookie`, if any,
    // is completed later. kOk: the put is over for its user. kNoResource: try again.
    // `open`: the registration of this side's memory, if that is open memory; or null.
    std::optional<Status> put(Channel& channel, const Memory& from, const Remote& to,
                              const ibv_mr* open, void* cookie);
    std::optional<Status> get(Channel& channel, const Memory& to, const Remote& from,
                              const ibv_mr* open, void* cookie);
    // put() by `post(piece, cookie)`, if the device reads the memory in place, by one work request.
    template <class Post>
    std::optional<Status> put_by(Channel& channel, const Memory& from, const ibv_mr* open,
                                 void* cookie, Post&& post);
    // The bytes of a message's frame, by `post(piece, cookie)`, if the device may read them in
    // place. Nothing: they have to be copied. The channel must be up.
    template <class Post>
    std::optional<Status> send_by(Channel& channel, const Memory& from, void* cookie, Post&& post);
    // put() and get() for registered pieces, which are posted one by one. They return nothing only
    // for one piece.
    std::optional<Status> put_pieces(Channel& channel, std::span<const ibv_sge> pieces,
                                     const Remote& to, void* cookie);
    std::optional<Status> get_pieces(Channel& channel, std::span<const ibv_sge> pieces,
                                     const Remote& from, void* cookie);
    // `unpack` is given the bytes before `cookie` is completed.
    std::optional<Status> get(Channel& channel, size_t length, const Remote& from, Unpack unpack,
                              void* argument, void* cookie);

    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kRma; }
    // rma_post.h. Ends an operation: gives the bytes of a get to the user if `good`. Returns the
    // user's cookie.
    void* done(void* cookie, bool good);

    uint32_t under_way() const { return under_way_; }
    // To be called at each call of progress if has_work(): gives pins back.
    bool has_work() const { return pins_.idle(); }
    void progress() { pins_.progress(); }
    // Whether progress() may do anything.
    bool holds_pins() const { return !pins_.empty(); }

  private:
    struct alignas(64) Operation {  // one cache line
        Channel* channel = nullptr;
        union {
            void* cookie;               // the user's
            Operation* next = nullptr;  // free
        };
        HeldPins::Use pin;  // of an operation in place
        // Only for a get through a buffer:
        SendPool::Buffer* buffer = nullptr;
        Unpack unpack = nullptr;
        void* argument = nullptr;
        uint32_t length = 0;
        bool reads = false;  // of all operations
    };
    // The memory of a get through a buffer that goes to several pieces.
    struct Scattered {
        Rma* owner = nullptr;
        Scattered* next = nullptr;  // free
        Buffers to;
    };

    bool is_short(const Channel& channel, size_t length) const {
        return length <= segment_ && channel.up();
    }
    Operation* take(Channel& channel, void* cookie);
    Operation* grow();
    void give(Operation& operation) {
        operation.next = free_;
        free_ = &operation;
    }
    Scattered* scatter(const Memory& to);
    void give(Scattered& scattered) {
        scattered.next = free_scattered_;
        free_scattered_ = &scattered;
    }
    static void to_pieces(void* to, const void* data, size_t length);
    Status put_copy(Channel& channel, const Memory& from, const Remote& to);
    std::optional<Status> put_longer(Channel& channel, const Memory& from, const Remote& to,
                                     const ibv_mr* open, void* cookie);
    static bool is_open(const Channel& channel, const Memory& memory, unsigned access);
    static bool takes_pieces(const Channel& channel, size_t count);
    template <class Post>
    std::optional<Status> post_pieces(Channel& channel, std::span<const ibv_sge> pieces,
                                      uint64_t address, void* cookie, Post&& post);
    Status get_open(Channel& channel, const ibv_sge& to, const Remote& from, void* cookie);
    Status get_short(Channel& channel, const Memory& to, const Remote& from, void* cookie);
    Status copy(Channel& channel, size_t length, const Remote& from, Unpack unpack, void* argument,
                void* cookie);
    template <bool reads, class Post>
    std::optional<Status> in_pin(Channel& channel, const Memory& memory, void* cookie, Post&& post);
    template <bool reads>
    std::optional<Status> in_place(Channel& channel, const Memory& memory, const Remote& remote,
                                   void* cookie);
    bool pin(const Memory& memory, unsigned access);

    Engine& engine_;
    PinCache& cache_;
    HeldPins pins_;
    const Decider& decider_;
    const size_t segment_;
    const uint64_t longest_pin_;
    size_t least_in_place_;             // bytes of a copy that may be worth pinning their memory
    std::deque<Operation> operations_;  // as many as there were under way at a time
    Operation* free_ = nullptr;
    std::deque<Scattered> scattered_;
    Scattered* free_scattered_ = nullptr;
    uint32_t under_way_ = 0;
};

}  // namespace tern
