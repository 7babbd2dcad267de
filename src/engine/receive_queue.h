// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "verbs/handles.h"
#include "verbs/memory.h"

namespace tern {

// The shared receive queue of an interface's connections, and its buffers. Cold frames arrive in
// these buffers; a write with immediate data consumes one too.
class ReceiveQueue {
  public:
    // Null on failure; errno says why.
    static std::unique_ptr<ReceiveQueue> create(ibv_pd* pd, uint32_t buffers, uint32_t buffer_size);

    ibv_srq* srq() const { return srq_.get(); }
    size_t registered_bytes() const { return memory_.size(); }
    const std::byte* buffer(uint32_t index) const {
        return memory_.data() + size_t{index} * stride_;
    }

    // The buffer has been read. Buffers are posted again in batches. Data path.
    void release(uint32_t index) {
        requests_[index].next = free_;
        free_ = &requests_[index];
        if (++free_count_ >= kBatch) post();
    }

  private:
    static constexpr uint32_t kBatch = 16;

    ReceiveQueue() = default;
    void post();

    verbs::RegisteredMemory memory_;
    verbs::SharedReceiveQueue srq_;
    size_t stride_ = 0;
    std::vector<ibv_sge> pieces_;
    std::vector<ibv_recv_wr> requests_;  // one for each buffer, reused
    ibv_recv_wr* free_ = nullptr;
    uint32_t free_count_ = 0;
};

}  // namespace tern
