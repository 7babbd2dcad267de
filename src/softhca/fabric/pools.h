// SPDX-License-Identifier: BSD-3-Clause
// Allocators for an owner's arena. Their state is private to the process, so that a death leaves
// nothing half allocated.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

namespace softhca {

// Allocates indices 1 .. limit - 1. The index released longest ago is used next, so that old
// numbers stay invalid for long.
class IndexPool {
  public:
    explicit IndexPool(uint32_t limit) : limit_(limit) {}

    std::optional<uint32_t> allocate() {
        const std::lock_guard lock(mutex_);
        if (next_ < limit_) return next_++;
        if (free_.empty()) return std::nullopt;
        const uint32_t index = free_.front();
        free_.pop_front();
        return index;
    }

    void release(uint32_t index) {
        const std::lock_guard lock(mutex_);
        free_.push_back(index);
    }

  private:
    const uint32_t limit_;
    std::mutex mutex_;
    uint32_t next_ = 1;
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
