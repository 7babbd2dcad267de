// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
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
//
// Settling a question with the other monitor takes a system call. It is only needed while another
// thread is unmapping memory: a thread that has been given its addresses must not find old pins.
// An owner that tells of all memory has told this before, so the other monitor is asked from then
// on until the owner has told the end of the change; for a second, if the owner does not tell ends.
// What libc does not know of, system calls that a program makes by itself, is seen once the reader
// of the kernel's events has it, some microseconds later.
class HearingMonitor final : public Monitor {
  public:
    // `of_all`: see MonitorMeans.
    HearingMonitor(std::unique_ptr<Monitor> other, bool of_all)
        : other_(std::move(other)), of_all_(of_all) {}

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
    bool settled() override { return must_ask() ? other_->settled() : other_->quiet(); }
    bool quiet() override { return other_->quiet(); }
    bool hears(uint64_t start, uint64_t end) const override { return heard_.overlaps(start, end); }
    bool hear(uint64_t start, uint64_t end) override {
        if (of_all_) ask_until_.store(now() + kChange, std::memory_order_release);
        return start < last_.load(std::memory_order_relaxed) &&
               first_.load(std::memory_order_relaxed) < end;
    }
    void change_begins() override { under_way_.fetch_add(1, std::memory_order_seq_cst); }
    // An end without a beginning is of a change that began before the owner told of any. A change
    // that has been told and has not begun yet does its work after its beginning.
    void change_ends() override {
        uint32_t count = under_way_.load(std::memory_order_relaxed);
        do {
            if (count == 0) return;
            if (count == 1) ask_until_.store(0, std::memory_order_relaxed);
        } while (!under_way_.compare_exchange_weak(count, count - 1, std::memory_order_seq_cst));
    }

  private:
    static constexpr size_t kMostRanges = 8192;
    // Longer than a thread can be kept from making the change that it has told.
    static constexpr int64_t kChange = 1'000'000'000;  // nanoseconds

    static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

    bool must_ask() {
        int64_t until = ask_until_.load(std::memory_order_acquire);
        if (until != 0 && until < now())
            ask_until_.compare_exchange_strong(until, 0, std::memory_order_relaxed);
        return !of_all_ || until != 0 || under_way_.load(std::memory_order_seq_cst) != 0;
    }

    void set_bounds() {
        const bool any = heard_.size() != 0;
        first_.store(any ? heard_.begin()->first : 0, std::memory_order_relaxed);
        last_.store(any ? std::prev(heard_.end())->second : 0, std::memory_order_relaxed);
    }

    std::unique_ptr<Monitor> other_;
    const bool of_all_;
    // 0: no change is under way. Written by whoever changes memory, before the system call that
    // orders it before everything that is done with the addresses afterwards.
    std::atomic<int64_t> ask_until_{now() + kChange};
    // Changes that have begun and not ended. Order as above.
    std::atomic<uint32_t> under_way_{0};
    WatchedRanges heard_;
    // What heard_ spans. Written under the lock of the cache. Relaxed: what a reader misses is a
    // change that began before the memory was watched.
    std::atomic<uint64_t> first_{0};
    std::atomic<uint64_t> last_{0};
};

}  // namespace tern
