// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "tern/pinning/regions/access.h"

namespace tern {

inline uint64_t to_word(const void* address) {
    return reinterpret_cast<uintptr_t>(address);
}

// Whole pages that are registered with the device. PinCache hands pins out with a reference; the
// keys are good until the reference is released, whatever becomes of the memory.
class Pin {
  public:
    uint64_t start() const { return start_; }
    uint64_t end() const { return end_; }
    unsigned access() const { return access_; }
    uint32_t lkey() const { return region_->lkey; }
    uint32_t rkey() const { return region_->rkey; }

    // Whether it is found: its memory has kept its pages. A change may be on its way to the cache.
    bool listed() const { return listed_.load(std::memory_order_relaxed); }
    // Whether its memory has changed: if not, and it is not found any more, another has replaced
    // it.
    bool stale() const { return stale_.load(std::memory_order_relaxed); }
    // Bytes that count towards PinCache::most_bytes(): memory of another device is not locked.
    uint64_t locked() const { return of_device_ ? 0 : end_ - start_; }

    bool covers(uint64_t start, uint64_t end, unsigned access) const {
        return start_ <= start && end <= end_ && (access_ & access) == access;
    }
    bool overlaps(uint64_t start, uint64_t end) const { return start_ < end && start < end_; }

  private:
    friend class PinCache;
    friend class PinIndex;
    friend class PinList;
    friend class PinTable;
    uint64_t start_ = 0;
    uint64_t end_ = 0;
    unsigned access_ = 0;
    ibv_mr* region_ = nullptr;
    uint32_t references_ = 0;
    // In the index. Written under the lock of the cache, and read without it: is_current().
    std::atomic<bool> listed_{false};
    std::atomic<bool> stale_{false};
    bool of_device_ = false;  // see PinCache::adopt()
    Pin* newer_ = nullptr;
    Pin* older_ = nullptr;
};

// An intrusive list of pins, from the newest to the oldest.
class PinList {
  public:
    bool empty() const { return newest_ == nullptr; }
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete): a pin is removed before it is deleted
    Pin* newest() const { return newest_; }
    Pin* oldest() const { return oldest_; }
    static Pin* next(const Pin* pin) { return pin->older_; }

    void add(Pin* pin) {
        pin->newer_ = nullptr;
        pin->older_ = newest_;
        (newest_ != nullptr ? newest_->newer_ : oldest_) = pin;
        newest_ = pin;
    }
    void remove(Pin* pin) {
        (pin->newer_ != nullptr ? pin->newer_->older_ : newest_) = pin->older_;
        (pin->older_ != nullptr ? pin->older_->newer_ : oldest_) = pin->newer_;
    }

  private:
    Pin* newest_ = nullptr;
    Pin* oldest_ = nullptr;
};

}  // namespace tern
