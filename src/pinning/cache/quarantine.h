// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace tern {

// Memory whose pages go soon. It must not be remembered with its present pages: the thread that
// caused the event, by madvise() say, may not have dropped them yet. No event reports when it has,
// so the cache allows a fixed time.
class Quarantine {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Quarantine(std::chrono::milliseconds time) : time_(time) {}

    void add(uint64_t start, uint64_t end) {
        const auto until = Clock::now() + time_;
        for (Entry& each : entries_)
            if (each.start <= start && end <= each.end) {
                each.until = until;
                return;
            }
        Entry& entry = entries_[next_++ % kEntries];
        all_until_ = std::max(all_until_, entry.until);
        entry = {start, end, until};
    }
    bool has(uint64_t start, uint64_t end) const {
        const auto now = Clock::now();
        if (all_until_ > now) return true;
        return std::ranges::any_of(entries_, [&](const Entry& each) {
            return each.until > now && each.start < end && start < each.end;
        });
    }

  private:
    static constexpr unsigned kEntries = 128;

    struct Entry {
        uint64_t start = 0;
        uint64_t end = 0;
        Clock::time_point until;
    };

    const std::chrono::milliseconds time_;
    std::array<Entry, kEntries> entries_{};
    unsigned next_ = 0;
    Clock::time_point all_until_{};  // for all memory: an entry was overwritten
};

}  // namespace tern
