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
// The owner tells a change before it happens. A change that has been told before the memory is
// watched is lost, though its pages may go only afterwards. No program can rely on memory that it
// uses while it takes the pages away, and memory that is mapped there next has its own pages.
class HearingMonitor final : public Monitor {
  public:
    explicit HearingMonitor(std::unique_ptr<Monitor> other) : other_(std::move(other)) {}

    MonitorKind kind() const override { return other_->kind(); }
    bool watch(uint64_t start, uint64_t end) override {
        if (heard_.contains(start, end) || other_->watch(start, end)) return true;
        if (heard_.size() >= kMostRanges) return false;
        try {
            heard_.add(start, end);
        } catch (const std::bad_alloc&) {
            return false;
        }
        set_bounds();
        return true;
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
    // What heard_ spans. Written under the lock of the cache. Relaxed: what a reader misses is a
    // change that began before the memory was watched.
    std::atomic<uint64_t> first_{0};
    std::atomic<uint64_t> last_{0};
};

}  // namespace tern
