// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/base/shortage.h"
#include "tern/base/tunables.h"
#include "tern/veloblock/frame.h"
#include "tern/verbs/handles.h"
#include "tern/verbs/memory.h"

namespace tern {

// The shared receive queue of an interface's connections, and its buffers. Cold frames arrive in
// these buffers; a write with immediate data consumes one too. Grows by chunks up to a limit.
//
// The user may keep a frame where it has arrived. Spare memory takes its place at once, so the
// queue gets no shorter; if there is none, the user has to copy.
class ReceiveQueue {
  public:
    struct Sizes {
        uint32_t first, most;   // buffers of the queue: at the beginning, and to which it grows
        uint32_t bytes;         // of a buffer
        uint32_t headroom = 0;  // bytes before a frame's payload, if the user may keep it; 0: no
        // With relaxed ordering, since a buffer is read only after the completion of its receive.
        bool relaxed = false;
        // Buffers that it may keep.
        uint32_t most_kept() const { return headroom != 0 ? most : 0; }
    };

    // Null on failure; errno says why.
    static std::unique_ptr<ReceiveQueue> create(ibv_pd* pd, const Sizes& sizes);

    ibv_srq* srq() const { return srq_.get(); }
    size_t registered_bytes() const { return registered_; }
    uint32_t size() const { return size_; }
    std::byte* buffer(uint32_t index) const {
        return reinterpret_cast<std::byte*>(pieces_[index].addr);
    }

    // Registers and posts more buffers. False at the limit, or if there is no memory.
    bool grow() noexcept;

    // The buffer has been read. Buffers are posted again in batches. Data path.
    void release(uint32_t index) {
        requests_[index].next = free_;
        free_ = &requests_[index];
        if (++free_count_ >= kReceiveBatch) post();
    }

    // Whether keep() may be called. May register memory.
    bool may_keep() { return spare_ != nullptr || add_spares(); }
    // The user keeps the frame with this payload, which it has before the buffer is released.
    void keep(std::byte* payload);
    // The user does not need the frame any more.
    void give_back(std::byte* payload);

  private:
    ReceiveQueue(ibv_pd* pd, const Sizes& sizes);
    uint32_t before() const;
    uint32_t& index_of(std::byte* payload) const;
    uint32_t& index_of(const ibv_sge& piece) const {
        return index_of(reinterpret_cast<std::byte*>(piece.addr) + sizeof(Word));
    }
    template <class Use>
    bool add(uint32_t buffers, Use&& use);
    bool lengthen(uint32_t buffers);
    [[gnu::cold]] bool add_spares() noexcept;
    void post();

    ibv_pd* pd_;
    const Sizes sizes_;
    uint32_t size_ = 0;  // without spares
    size_t registered_ = 0;
    Shortage shortage_{scarce::kMoreReceives};
    std::vector<verbs::RegisteredMemory> chunks_;
    verbs::SharedReceiveQueue srq_;
    // One for each buffer, reused. There is room for the most: the device's requests refer to them.
    std::vector<ibv_sge> pieces_;
    std::vector<ibv_recv_wr> requests_;
    ibv_recv_wr* free_ = nullptr;
    uint32_t free_count_ = 0;
    ibv_recv_wr* spare_ = nullptr;  // those whose memory is not in the queue, and not kept
};

}  // namespace tern
