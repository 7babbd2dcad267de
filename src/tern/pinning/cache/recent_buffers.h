// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tern {

// Counts recent uses of buffers. The table has a fixed size: a new buffer replaces an old one.
class RecentBuffers {
  public:
    // Counts a use of a buffer; returns how many there were, this one included.
    uint32_t note(uint64_t start, uint64_t end) {
        ++now_;
        Entry* entry = lookup(start, end);
        if (entry == nullptr) {
            entry = &oldest(set_of(start, block_of(end - start)));
            entry->count = 0;
            entry->lost_until = 0;
        }
        entry->start = start;
        entry->end = end;
        entry->seen = now_;
        return ++entry->count;
    }
    uint32_t uses(uint64_t start, uint64_t end) const {
        const Entry* entry = const_cast<RecentBuffers*>(this)->lookup(start, end);
        return entry == nullptr ? 0 : entry->count;
    }
    // Pins of the buffer cannot be remembered now. Known for so many uses of any buffers, or until
    // the buffer counts as new.
    void lose(uint64_t start, uint64_t end) {
        if (Entry* entry = lookup(start, end); entry != nullptr) entry->lost_until = now_ + kLost;
    }
    bool keeps(uint64_t start, uint64_t end) const {
        const Entry* entry = const_cast<RecentBuffers*>(this)->lookup(start, end);
        return entry == nullptr || now_ >= entry->lost_until;
    }
    // Buffers that overlap this range count as new.
    void forget(uint64_t start, uint64_t end) {
        for (Set& set : sets_)
            for (Entry& entry : set)
                if (entry.start < end && start < entry.end) entry = {};
    }

  private:
    static constexpr unsigned kWays = 4;
    static constexpr unsigned kSets = 256;
    // Buffers of a kind that begin in one block share a set. Blocks of so many bits:
    static constexpr unsigned kLongBlock = 16;
    static constexpr unsigned kShortBlock = 12;  // of buffers of up to kShort bytes
    static constexpr uint64_t kShort = 32 << 10;
    static constexpr uint64_t kLately = 16384;  // uses of any buffers
    static constexpr uint64_t kLost = 1024;

    struct Entry {
        uint64_t start = 0;
        uint64_t end = 0;
        uint64_t seen = 0;
        uint32_t count = 0;
        uint64_t lost_until = 0;
    };
    using Set = std::array<Entry, kWays>;

    static unsigned block_of(uint64_t length) { return length > kShort ? kLongBlock : kShortBlock; }
    Set& set_of(uint64_t start, unsigned block) {
        return sets_[((start >> block) * 0x9e3779b97f4a7c15) >> 56];
    }
    static Entry& oldest(Set& set) { return *std::ranges::min_element(set, {}, &Entry::seen); }

    // The entry that overlaps 7/8 of a buffer at least. It may be that of a long buffer of which
    // this one is a part.
    Entry* lookup(uint64_t start, uint64_t end) {
        const bool is_short = end - start <= kShort;
        if (Entry* entry = is_short ? lookup(start, end, kShortBlock) : nullptr; entry != nullptr)
            return entry;
        return lookup(start, end, kLongBlock);
    }
    Entry* lookup(uint64_t start, uint64_t end, unsigned block_bits) {
        const uint64_t block = uint64_t{1} << block_bits;
        for (const uint64_t where : {start, start - block, start + block})
            for (Entry& entry : set_of(where, block_bits)) {
                const uint64_t from = std::max(start, entry.start);
                const uint64_t to = std::min(end, entry.end);
                if (entry.count == 0 || to <= from || now_ - entry.seen > kLately) continue;
                if (to - from >= (end - start) - (end - start) / 8) return &entry;
            }
        return nullptr;
    }

    uint64_t now_ = 0;
    std::array<Set, kSets> sets_{};
};

}  // namespace tern
