// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "common/clock.h"
#include "tern/base/tunables.h"
#include "tern/pinning/watch/monitor.h"
#include "tern/pinning/watch/watched_ranges.h"

namespace tern {

// Another monitor, which asks the kernel, helped by hooks: the cache's owner is called before
// memory changes, and reports the change to the cache. Memory that the other monitor cannot watch
// (shared memory, memory from files, huge pages) is watched by the hooks alone.
//
// A hook reports a change before the change happens. If it reports before the memory is watched,
// the report is lost, although the pages go only afterwards. That does no harm: a program that uses
// memory while another of its threads takes the pages away is wrong in any case, and memory that is
// mapped there later has pages of its own.
//
// other_->settled() costs a system call. It is needed only while another thread is unmapping
// memory: a thread that is given the same addresses must not find the old pins. If the hooks see
// every change, the system call is made
// - from the beginning of a change to its end, where the hooks report both,
// - and from the announcement of a change on, until no change is under way any more or, where the
//   hooks do not report ends, for a second.
// Changes that bypass libc (system calls that a program makes directly) are found when the reader
// of the kernel's events has read them, some microseconds later.
class HookedMonitor final : public Monitor {
  public:
    // `hooks_see_all`: see MonitorMeans.
    HookedMonitor(std::unique_ptr<Monitor> other, bool hooks_see_all)
        : other_(std::move(other)), hooks_see_all_(hooks_see_all) {}

    MonitorKind kind() const override { return other_->kind(); }
    bool watch(uint64_t start, uint64_t end) override {
        if (hooked_.contains(start, end) || other_->watch(start, end)) return true;
        // Hooks do not see all changes of memory that the kernel could watch.
        if (other_->not_now() || hooked_.size() >= kMostHooked) return false;
        try {
            hooked_.join(start, end);
        } catch (const std::bad_alloc&) {
            return false;
        }
        set_bounds();
        return true;
    }
    void changed(const MemoryChange& change) override {
        other_->changed(change);
        if (!change.unmapped) return;
        hooked_.remove(change.start, change.end);
        set_bounds();
    }
    bool settled() override {
        const bool ask = !hooks_see_all_ || under_way() || announced();
        return ask ? other_->settled() : other_->quiet();
    }
    bool quiet() override { return other_->quiet(); }
    bool needs_hook(uint64_t start, uint64_t end) const override {
        return hooked_.overlaps(start, end);
    }
    bool on_announced(uint64_t start, uint64_t end) override {
        if (hooks_see_all_) announce();
        return start < last_.load(std::memory_order_relaxed) &&
               first_.load(std::memory_order_relaxed) < end;
    }
    void change_begins() override { under_way_.fetch_add(1, std::memory_order_seq_cst); }
    // An end without a beginning belongs to a change that began before the hooks were installed. A
    // change that has been announced and has not begun takes the pages away after its beginning.
    void change_ends() override {
        uint32_t count = under_way_.load(std::memory_order_relaxed);
        do {
            if (count == 0) return;
            if (count == 1) announced_until_.store(0, std::memory_order_relaxed);
        } while (!under_way_.compare_exchange_weak(count, count - 1, std::memory_order_seq_cst));
    }

    bool under_way() const override { return under_way_.load(std::memory_order_seq_cst) != 0; }

  private:
    // ns. Longer than a thread can be kept from making the change that it has announced.
    static constexpr int64_t kChange = 1'000'000'000;

    static int64_t now() { return static_cast<int64_t>(base::monotonic_ns()); }

    // The thread that changes memory writes this before its system call, which orders the write
    // before all later uses of the addresses.
    void announce() {
        const int64_t time = now() + kChange;
        int64_t until = announced_until_.load(std::memory_order_relaxed);
        while (until < time && !announced_until_.compare_exchange_weak(until, time)) {
        }
    }
    // Whether a change that has been announced may not have happened yet.
    bool announced() {
        int64_t until = announced_until_.load(std::memory_order_relaxed);
        if (until == 0 || until >= now()) return until != 0;
        return !announced_until_.compare_exchange_strong(until, 0);
    }

    void set_bounds() {
        const bool any = hooked_.size() != 0;
        first_.store(any ? hooked_.begin()->first : 0, std::memory_order_relaxed);
        last_.store(any ? std::prev(hooked_.end())->second : 0, std::memory_order_relaxed);
    }

    std::unique_ptr<Monitor> other_;
    const bool hooks_see_all_;
    std::atomic<int64_t> announced_until_{0};  // 0: no change, or all have ended
    // Changes that have begun and not ended. Written by the threads that change memory; ordered
    // like announced_until_.
    std::atomic<uint32_t> under_way_{0};
    WatchedRanges hooked_;
    // The addresses that hooked_ spans. Written under the lock of the cache, read by any thread.
    // Relaxed: a thread that reads an old value makes a change that began before the memory was
    // watched.
    std::atomic<uint64_t> first_{0};
    std::atomic<uint64_t> last_{0};
};

}  // namespace tern
