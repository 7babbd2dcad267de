// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbs/memory.h"

namespace tern {

// Registered buffers for messages that do not go inline, shared by all connections of an interface.
// Grows by chunks up to a limit. take() and give() are on the data path.
class SendPool {
  public:
    struct Buffer {
        std::byte* data = nullptr;
        Buffer* next = nullptr;
        uint32_t lkey = 0;
    };

    SendPool(ibv_pd* pd, uint32_t buffer_size, uint32_t most)
        : pd_(pd), buffer_size_(buffer_size), most_(most) {}

    // Registers the first buffers. False if that fails; errno says why.
    bool open() { return grow(); }
    // Null if all buffers are in use and the pool cannot grow.
    Buffer* take() {
        if (free_ == nullptr && !grow()) return nullptr;
        Buffer* buffer = free_;
        free_ = buffer->next;
        return buffer;
    }
    void give(Buffer* buffer) {
        buffer->next = free_;
        free_ = buffer;
    }

    bool available() const { return free_ != nullptr || count_ < most_; }
    // The next take() does not return null.
    bool prepare() { return free_ != nullptr || grow(); }
    // Memory could not be registered, so the pool does not grow any more.
    bool refused() const { return refused_; }
    size_t registered_bytes() const { return registered_; }

  private:
    static constexpr uint32_t kChunk = 32;  // buffers

    bool grow();

    struct Chunk {
        verbs::RegisteredMemory memory;
        std::vector<Buffer> buffers;
    };

    ibv_pd* pd_;
    uint32_t buffer_size_;
    uint32_t most_;
    uint32_t count_ = 0;
    size_t registered_ = 0;
    bool refused_ = false;
    Buffer* free_ = nullptr;
    std::vector<Chunk> chunks_;
};

}  // namespace tern
