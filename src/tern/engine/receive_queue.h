// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/base/shortage.h"
#include "tern/verbs/handles.h"
#include "tern/verbs/memory.h"

namespace tern {

// The shared receive queue of an interface's connections, and its buffers. Cold frames arrive in
// these buffers; a write with immediate data consumes one too. Grows by chunks up to a limit.
class ReceiveQueue {
  public:
    // Begins with `buffers`, and grows to `most`. Null on failure; errno says why.
    static std::unique_ptr<ReceiveQueue> create(ibv_pd* pd, uint32_t buffers, uint32_t most,
                                                uint32_t buffer_size);

    ibv_srq* srq() const { return srq_.get(); }
    size_t registered_bytes() const { return registered_; }
    uint32_t size() const { return static_cast<uint32_t>(requests_.size()); }
    const std::byte* buffer(uint32_t index) const {
        return reinterpret_cast<const std::byte*>(pieces_[index].addr);
    }

    // Registers and posts more buffers. False at the limit, or if there is no memory.
    bool grow() noexcept;

    // The buffer has been read. Buffers are posted again in batches. Data path.
    void release(uint32_t index) {
        requests_[index].next = free_;
        free_ = &requests_[index];
        if (++free_count_ >= kBatch) post();
    }

  private:
    static constexpr uint32_t kBatch = 16;
    static constexpr uint32_t kLeastChunk = 64;  // buffers

    ReceiveQueue(ibv_pd* pd, uint32_t most, uint32_t buffer_size);
    bool add(uint32_t buffers);
    void post();

    ibv_pd* pd_;
    uint32_t most_;  // buffers
    uint32_t buffer_size_;
    size_t registered_ = 0;
    Shortage shortage_{scarce::kMoreReceives};
    std::vector<verbs::RegisteredMemory> chunks_;
    verbs::SharedReceiveQueue srq_;
    // One for each buffer, reused. There is room for the most: the device's requests refer to them.
    std::vector<ibv_sge> pieces_;
    std::vector<ibv_recv_wr> requests_;
    ibv_recv_wr* free_ = nullptr;
    uint32_t free_count_ = 0;
};

}  // namespace tern
