// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <utility>

#include "pinning/watch/monitor.h"
#include "pinning/watch/told_changes.h"
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
// on until
// - the cache has no pin of this memory. It has none if it never had, and when it has handled what
//   the other monitor tells of the change. It looks before it makes a pin, which is not an old one:
//   see above.
// - or the owner has told the end of the change,
// - or a second is over.
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
    bool settled() override {
        const ToldChanges::Kept told = told_.kept();
        if (told == ToldChanges::Kept::kUnexamined) return false;
        return settled(told);
    }
    bool settle(const Pinned& pinned) override {
        if (told_.kept() == ToldChanges::Kept::kUnexamined) told_.examine(now(), pinned);
        return settled(told_.kept());
    }
    void review(const Pinned& pinned) override {
        if (told_.kept() != ToldChanges::Kept::kNone) told_.examine(now(), pinned);
    }
    bool quiet() override { return other_->quiet(); }
    bool hears(uint64_t start, uint64_t end) const override { return heard_.overlaps(start, end); }
    bool hear(uint64_t start, uint64_t end) override {
        if (of_all_) told_.add(start, end, now());
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
            if (count == 1) told_.clear();
        } while (!under_way_.compare_exchange_weak(count, count - 1, std::memory_order_seq_cst));
    }

  private:
    static constexpr size_t kMostRanges = 8192;

    static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

    // What has been told is written by whoever changes memory, before the system call that orders
    // it before everything that is done with the addresses afterwards.
    bool settled(ToldChanges::Kept told) {
        if (told != ToldChanges::Kept::kNone) {
            told_.expire(now());
            told = told_.kept();
        }
        const bool asks = !of_all_ || told != ToldChanges::Kept::kNone ||
                          under_way_.load(std::memory_order_seq_cst) != 0;
        return asks ? other_->settled() : other_->quiet();
    }

    void set_bounds() {
        const bool any = heard_.size() != 0;
        first_.store(any ? heard_.begin()->first : 0, std::memory_order_relaxed);
        last_.store(any ? std::prev(heard_.end())->second : 0, std::memory_order_relaxed);
    }

    std::unique_ptr<Monitor> other_;
    const bool of_all_;
    ToldChanges told_;
    // Changes that have begun and not ended. Ordered as what has been told.
    std::atomic<uint32_t> under_way_{0};
    WatchedRanges heard_;
    // What heard_ spans. Written under the lock of the cache. Relaxed: what a reader misses is a
    // change that began before the memory was watched.
    std::atomic<uint64_t> first_{0};
    std::atomic<uint64_t> last_{0};
};

}  // namespace tern
