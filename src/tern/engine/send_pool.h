// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "tern/base/shortage.h"
#include "tern/base/tunables.h"
#include "tern/connection/connection.h"
#include "tern/verbs/memory.h"

namespace tern {

class Connector;
class EngineOwner;
class WorkRequests;
struct Channel;

// Registered buffers for messages that do not go inline, shared by all connections of an interface.
// Grows by chunks up to a limit. take() and give() are on the data path.
class SendPool {
  public:
    static constexpr uint64_t kNobody = UINT64_MAX;

    struct Buffer {
        std::byte* data = nullptr;
        Buffer* next = nullptr;
        uint32_t lkey = 0;
        uint64_t holder = kNobody;  // Connection::tag of the one that posted it last
    };

    SendPool(ibv_pd* pd, uint32_t buffer_size, uint32_t most)
        : pd_(pd), buffer_size_(buffer_size), most_(most) {}

    // Registers the first buffers. False if that fails; errno says why.
    bool open() { return grow(); }
    // Null if all buffers are in use and the pool cannot grow.
    Buffer* take() {
        if (!prepare()) return nullptr;
        Buffer* buffer = free_;
        free_ = buffer->next;
        return buffer;
    }
    // Null: take() may have one.
    Buffer* take_free() {
        Buffer* const buffer = free_;
        if (buffer != nullptr) [[likely]]
            free_ = buffer->next;
        return buffer;
    }
    void give(Buffer* buffer) {
        buffer->next = free_;
        free_ = buffer;
    }

    // Calls visit(tag) for the connections that have posted buffers, some of them several times.
    template <class Visit>
    void for_each_holder(Visit visit) const {
        uint64_t last = kNobody;
        for (const Chunk& chunk : chunks_)
            for (const Buffer& buffer : chunk.buffers)
                if (const uint64_t holder = buffer.holder; std::exchange(last, holder) != holder)
                    visit(holder);
    }

    bool available() const { return free_ != nullptr || (count_ < most_ && !refused_); }
    // The next take() does not return null.
    bool prepare() { return free_ != nullptr || grow_later(); }
    // There is no buffer. If memory could not be registered, tries again when it is time, and tells
    // the owner, as Shortage has it. False: there is none still.
    template <class Owner>
    [[gnu::cold]] bool grow_again(Owner& owner) {
        const uint64_t now = base::monotonic_ns();
        if (!refused_ || !shortage_.may_try(now)) return false;
        const size_t bytes = size_t{kSendChunk} * buffer_size_;
        const auto grow = [this](uint64_t) {
            refused_ = false;
            return grow_later();
        };
        if (shortage_.obtain(bytes, bytes, now, grow, owner) != 0) return true;
        shortage_.tell(owner);
        return false;
    }
    size_t registered_bytes() const { return registered_; }

  private:
    bool grow();
    // Grows, unless memory is exhausted: then there is no buffer now.
    bool grow_later() noexcept;

    struct Chunk {
        verbs::RegisteredMemory memory;
        std::vector<Buffer> buffers;
    };

    ibv_pd* pd_;
    uint32_t buffer_size_;
    uint32_t most_;
    uint32_t count_ = 0;
    size_t registered_ = 0;
    bool refused_ = false;  // memory could not be registered: only grow_again() tries
    Shortage shortage_{scarce::kSends};
    Buffer* free_ = nullptr;
    std::vector<Chunk> chunks_;
};

// What a send is refused for, places in the send queue and buffers of the send pool, and what
// brings them back. Control path.
class SendRoom {
  public:
    SendRoom(SendPool& pool, Connector& connector, WorkRequests& requests, EngineOwner& owner)
        : pool_(pool), connector_(connector), requests_(requests), owner_(owner) {}

    // The send queue has no place, or the connection is not up. Returns kNoResource.
    [[gnu::cold]] Status no_place(Channel& channel);
    // All buffers are in work requests. Returns kNoResource.
    [[gnu::cold]] Status no_buffer();

    uint64_t refused() const { return refused_; }

  private:
    SendPool& pool_;
    Connector& connector_;
    WorkRequests& requests_;
    EngineOwner& owner_;
    uint64_t refused_ = 0;  // sends on connections that are up
};

}  // namespace tern
