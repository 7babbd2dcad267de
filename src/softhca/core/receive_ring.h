// SPDX-License-Identifier: BSD-3-Clause
// The ring of a receive queue or a shared receive queue. The owner posts; whoever delivers a
// message takes the head.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/types.h"

namespace softhca {

/// One posted receive; `num_sge` elements follow in memory.
struct RecvWqe {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t reserved;
    const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
    Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
    uint64_t length() const {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < num_sge; ++i) {
            sum += sges()[i].length;
        }
        return sum;
    }
};

/// The shared words of the ring. Indices count up for ever.
struct RecvRing {
    std::atomic<uint64_t> tail{0};      ///< posted; the owner writes, release
    std::atomic<uint64_t> head{0};      ///< taken; the consumer writes under its lock
    std::atomic<uint64_t> released{0};  ///< given back by polling; the owner writes
    uint64_t slots = 0;                 ///< offset of the slots in the owner's arena
    uint32_t mask = 0;
    uint32_t capacity = 0;
    uint32_t max_sge = 0;

    static uint64_t stride(uint32_t max_sge) {
        return sizeof(RecvWqe) + uint64_t{max_sge} * sizeof(Sge);
    }
    bool full() const {
        return tail.load(std::memory_order_relaxed) - released.load(std::memory_order_relaxed) >=
               capacity;
    }
    bool empty() const {
        return head.load(std::memory_order_relaxed) == tail.load(std::memory_order_acquire);
    }
    uint64_t posted() const {
        return tail.load(std::memory_order_acquire) - head.load(std::memory_order_relaxed);
    }
    RecvWqe& at(void* base, uint64_t index) const {
        return *reinterpret_cast<RecvWqe*>(static_cast<char*>(base) +
                                           (index & mask) * stride(max_sge));
    }
};

}  // namespace softhca
