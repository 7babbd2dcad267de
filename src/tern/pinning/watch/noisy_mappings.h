// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace tern {

// Finds mappings that change too often to be watched: a call of the program that changes watched
// memory waits until the event about it has been read. Such a mapping is not watched for a while,
// and each time for twice as long.
class NoisyMappings {
  public:
    using Clock = std::chrono::steady_clock;
    using Time = Clock::time_point;

    static constexpr auto kWindow = std::chrono::seconds(1);
    static constexpr unsigned kMost = 200;  // changes in a window: about 1 % of its time
    static constexpr auto kFirst = std::chrono::seconds(10);
    static constexpr auto kLongest = std::chrono::hours(1);

    void allow(unsigned most) { most_ = most; }
    // Counts a change of a mapping. True: it must not be watched from now on.
    bool count(uint64_t start, uint64_t end, Time now) {
        Entry& entry = entry_of(start, end, now);
        if (entry.changes == 0 || now - entry.since > kWindow) {
            entry.since = now;
            entry.changes = 0;
        }
        if (++entry.changes <= most_) return false;
        entry.changes = 0;
        entry.quiet = entry.quiet == Clock::duration{}
                          ? Clock::duration{kFirst}
                          : std::min<Clock::duration>(2 * entry.quiet, kLongest);
        entry.until = now + entry.quiet;
        return true;
    }
    // Whether some of this memory must not be watched now.
    bool has(uint64_t start, uint64_t end, Time now) const {
        return std::ranges::any_of(entries_, [&](const Entry& entry) {
            return entry.until > now && entry.start < end && start < entry.end;
        });
    }

  private:
    struct Entry {
        uint64_t start = 0;
        uint64_t end = 0;
        unsigned changes = 0;
        Time since{};
        Time until{};
        Clock::duration quiet{};
    };

    Entry& entry_of(uint64_t start, uint64_t end, Time now) {
        Entry* oldest = entries_.data();
        for (Entry& entry : entries_) {
            if (entry.start < end && start < entry.end) {
                // Until its time is over, what is not watched stays so. Then what was around the
                // mapping may be others'.
                const bool kept = entry.until > now;
                entry.start = kept ? std::min(entry.start, start) : start;
                entry.end = kept ? std::max(entry.end, end) : end;
                return entry;
            }
            if (last_use(entry) < last_use(*oldest)) oldest = &entry;
        }
        *oldest = {.start = start, .end = end, .since = now};
        return *oldest;
    }
    static Time last_use(const Entry& entry) { return std::max(entry.since, entry.until); }

    unsigned most_ = kMost;
    std::array<Entry, 64> entries_{};
};

}  // namespace tern
