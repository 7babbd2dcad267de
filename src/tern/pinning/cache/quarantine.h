// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace tern {

// Memory whose pages go soon. It must not be remembered with its present pages: the thread that
// caused the event, by madvise() say, may not have dropped them yet. No event reports when it has,
// so the cache allows a time that grows with the memory. Hooks may know more: see has().
class Quarantine {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Quarantine(std::chrono::milliseconds time) : time_(time) {}

    void add(uint64_t start, uint64_t end) {
        const auto until = Clock::now() + time_of(end - start);
        for (Entry& each : entries_)
            if (each.start <= start && end <= each.end) {
                each.until = std::max(each.until, until);
                return;
            }
        Entry& entry = entries_[next_++ % kEntries];
        all_until_ = std::max(all_until_, entry.until);
        entry = {start, end, until};
    }
    // `under_way`: hooks say that a call that changes some memory has not ended, so a change that
    // was reported before may still be to come. Some seconds are enough: another call may have
    // begun.
    bool has(uint64_t start, uint64_t end, bool under_way) {
        const auto now = Clock::now();
        forget(under_way ? now - kMost : now);
        return all_until_ > now || std::ranges::any_of(entries_, [&](const Entry& each) {
                   return each.start < end && start < each.end;
               });
    }

  private:
    static constexpr unsigned kEntries = 128;
    // A page takes the kernel less than a microsecond, if it lets the thread run.
    static constexpr std::chrono::nanoseconds kOfAPage{4000};
    static constexpr std::chrono::seconds kMost{5};

    struct Entry {
        uint64_t start = 0;
        uint64_t end = 0;
        Clock::time_point until;
    };

    // None at all only if the cache's owner allows none.
    Clock::duration time_of(uint64_t bytes) const {
        // Of all memory, because changes are missing: no page is known to go.
        if (time_.count() == 0 || bytes == UINT64_MAX) return time_;
        const auto pages = static_cast<int64_t>(bytes >> 12);
        const int64_t most = std::chrono::nanoseconds(kMost) / kOfAPage;
        return time_ + kOfAPage * std::min(pages, most);
    }
    void forget(Clock::time_point now) {
        for (Entry& each : entries_)
            if (each.until <= now) each = {};
    }

    const std::chrono::milliseconds time_;
    std::array<Entry, kEntries> entries_{};
    unsigned next_ = 0;
    Clock::time_point all_until_{};  // for all memory: an entry was overwritten
};

}  // namespace tern
