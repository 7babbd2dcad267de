// SPDX-License-Identifier: BSD-3-Clause
// Allocators for an owner's arena. Their state is private to the process, so that a death leaves
// nothing half allocated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

#include "softhca/core/personality.h"

namespace softhca {

// Allocates indices 1 .. limit - 1. By default the index released longest ago is used next, so that
// old numbers stay invalid for long.
class IndexPool {
  public:
    explicit IndexPool(uint32_t limit) : limit_(limit) {}

    // Sets the order in which released indices are used again, and the most indices in use, which
    // is below the limit. Before the first allocation.
    void configure(rule::Numbers order, uint32_t most) {
        order_ = order;
        most_ = most;
    }

    std::optional<uint32_t> allocate() {
        const std::lock_guard lock(mutex_);
        if (used_ == most_) return std::nullopt;
        const bool fresh = next_ < limit_ && (order_ == rule::kOldestFirst || free_.empty());
        if (!fresh && free_.empty()) return std::nullopt;
        ++used_;
        return fresh ? next_++ : take();
    }

    // All indices that were ever allocated are below it.
    uint32_t end() {
        const std::lock_guard lock(mutex_);
        return next_;
    }

    void release(uint32_t index) {
        const std::lock_guard lock(mutex_);
        --used_;
        free_.push_back(index);
    }

  private:
    uint32_t take() {
        auto chosen = free_.begin();
        if (order_ == rule::kLowestFirst) chosen = std::min_element(free_.begin(), free_.end());
        if (order_ == rule::kNewestFirst) chosen = std::prev(free_.end());
        const uint32_t index = *chosen;
        free_.erase(chosen);
        return index;
    }

    const uint32_t limit_;
    rule::Numbers order_ = rule::kOldestFirst;
    uint32_t most_ = ~uint32_t{0};
    std::mutex mutex_;
    uint32_t next_ = 1;
    uint32_t used_ = 0;
    std::deque<uint32_t> free_;
};

// Allocates memory for rings: first fit, in cache lines. Offsets are relative to the arena.
class ArenaHeap {
  public:
    ArenaHeap(uint64_t begin, uint64_t end) { free_.emplace(begin, end - begin); }

    // The offset; 0 if there is no room.
    uint64_t allocate(uint64_t bytes) {
        const uint64_t size = (bytes + 63) & ~uint64_t{63};
        const std::lock_guard lock(mutex_);
        for (auto it = free_.begin(); it != free_.end(); ++it) {
            if (it->second < size) continue;
            const uint64_t offset = it->first;
            const uint64_t rest = it->second - size;
            free_.erase(it);
            if (rest != 0) free_.emplace(offset + size, rest);
            used_.emplace(offset, size);
            return offset;
        }
        return 0;
    }

    void release(uint64_t offset) {
        const std::lock_guard lock(mutex_);
        const auto used = used_.find(offset);
        if (used == used_.end()) return;
        auto [it, inserted] = free_.emplace(offset, used->second);
        used_.erase(used);
        merge_with_next(it);
        if (it != free_.begin()) merge_with_next(std::prev(it));
    }

  private:
    using Extents = std::map<uint64_t, uint64_t>;
    void merge_with_next(Extents::iterator it) {
        const auto next = std::next(it);
        if (next != free_.end() && it->first + it->second == next->first) {
            it->second += next->second;
            free_.erase(next);
        }
    }

    std::mutex mutex_;
    Extents free_;
    Extents used_;
};

}  // namespace softhca
