// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "pinning/watch/monitor.h"
#include "pinning/watch/watched_ranges.h"

namespace tern {

// Another monitor, and the owner's word for memory that the other one cannot watch: shared memory,
// memory from files, huge pages.
//
// The owner tells a change before it happens, and does not tell changes of memory that was not
// heard of then. So memory is kNew when it is watched first: the cache does not remember pins of
// it for a while, as after an early change (PinCache::quarantine).
class HearingMonitor final : public Monitor {
  public:
    explicit HearingMonitor(std::unique_ptr<Monitor> other) : other_(std::move(other)) {}

    MonitorKind kind() const override { return other_->kind(); }
    Watching watch(uint64_t start, uint64_t end) override {
        if (heard_.contains(start, end)) return Watching::kYes;
        const Watching watching = other_->watch(start, end);
        if (watching != Watching::kNo || heard_.size() >= kMostRanges) return watching;
        try {
            heard_.add(start, end);
        } catch (const std::bad_alloc&) {
            return Watching::kNo;
        }
        set_bounds();
        return Watching::kNew;
    }
    void changed(const MemoryChange& change) override {
        other_->changed(change);
        if (!change.unmapped) return;
        heard_.remove(change.start, change.end);
        set_bounds();
    }
    bool settled() override { return other_->settled(); }
    bool quiet() override { return other_->quiet(); }
    bool hears(uint64_t start, uint64_t end) const override { return heard_.overlaps(start, end); }
    bool may_hear(uint64_t start, uint64_t end) const override {
        return start < last_.load(std::memory_order_relaxed) &&
               first_.load(std::memory_order_relaxed) < end;
    }

  private:
    static constexpr size_t kMostRanges = 8192;

    void set_bounds() {
        const bool any = heard_.size() != 0;
        first_.store(any ? heard_.begin()->first : 0, std::memory_order_relaxed);
        last_.store(any ? std::prev(heard_.end())->second : 0, std::memory_order_relaxed);
    }

    std::unique_ptr<Monitor> other_;
    WatchedRanges heard_;
    // What heard_ spans. Written under the lock of the cache. Relaxed: what a reader misses began
    // before the memory was kNew.
    std::atomic<uint64_t> first_{0};
    std::atomic<uint64_t> last_{0};
};

}  // namespace tern
