// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "tern/base/tunables.h"

namespace tern {

// Counts recent uses of buffers. The table grows with them, as far as uses are recent.
class RecentBuffers {
  public:
    // Counts a use of a buffer; returns how many there were, this one included.
    uint32_t note(uint64_t start, uint64_t end) {
        ++now_;
        Entry* entry = lookup(start, end);
        if (entry == nullptr) {
            entry = &place_for(start, block_of(end - start));
            *entry = {};
            ++added_;
        }
        entry->start = start;
        entry->end = end;
        entry->seen = now_;
        return ++entry->count;
    }
    uint32_t uses(uint64_t start, uint64_t end) const {
        const Entry* entry = lookup(start, end);
        return entry == nullptr ? 0 : entry->count;
    }
    // Pins of the buffer cannot be remembered now. Known for so many uses of any buffers, or until
    // the buffer counts as new.
    void lose(uint64_t start, uint64_t end) {
        if (Entry* entry = lookup(start, end); entry != nullptr)
            entry->lost_until = now_ + kLostUses;
    }
    bool keeps(uint64_t start, uint64_t end) const {
        const Entry* entry = lookup(start, end);
        return entry == nullptr || now_ >= entry->lost_until;
    }
    // Buffers that overlap this range count as new.
    void forget(uint64_t start, uint64_t end) {
        for (Set& set : sets())
            for (Entry& entry : set)
                if (entry.start < end && start < entry.end) entry = {};
    }

  private:
    static constexpr unsigned kWays = 4;
    static constexpr unsigned kFewBits = 8;  // of the number of a set
    // Buffers of a kind that begin in one block share a set. Blocks of so many bits:
    static constexpr unsigned kLongBlock = 16;
    static constexpr unsigned kShortBlock = 12;  // of buffers of up to kShort bytes
    static constexpr uint64_t kShort = 32 << 10;

    struct Entry {
        uint64_t start = 0;
        uint64_t end = 0;
        uint64_t seen = 0;
        uint32_t count = 0;
        uint64_t lost_until = 0;
    };
    using Set = std::array<Entry, kWays>;

    static unsigned block_of(uint64_t length) { return length > kShort ? kLongBlock : kShortBlock; }
    Set& set_of(uint64_t start, unsigned block) const {
        return sets_[((start >> block) * 0x9e3779b97f4a7c15) >> (64 - bits_)];
    }
    std::span<Set> sets() const { return {sets_.get(), size_t{1} << bits_}; }
    static Entry& oldest(Set& set) { return *std::ranges::min_element(set, {}, &Entry::seen); }
    bool is_recent(const Entry& entry) const {
        return entry.count != 0 && now_ - entry.seen <= kRecentUses;
    }
    // An entry that is not recent, if there can be one.
    Entry& place_for(uint64_t start, unsigned block) {
        for (;;) {
            Entry& entry = oldest(set_of(start, block));
            if (!is_recent(entry) || !grow()) return entry;
        }
    }
    // Twice as many sets: each one splits. False: there are enough for these buffers, or no memory.
    bool grow() {
        if (bits_ == kRecentBits || added_ < sets().size()) return false;
        std::unique_ptr<Set[]> others(new (std::nothrow) Set[size_t{2} << bits_]());
        if (!others) return false;
        const std::span<Set> few = sets();
        sets_.swap(others);
        ++bits_;
        added_ = 0;
        for (Set& set : few)
            for (Entry& entry : set)
                if (is_recent(entry))
                    oldest(set_of(entry.start, block_of(entry.end - entry.start))) = entry;
        return true;
    }

    // The entry that overlaps 7/8 of a buffer at least. It may be that of a long buffer of which
    // this one is a part.
    Entry* lookup(uint64_t start, uint64_t end) const {
        const bool is_short = end - start <= kShort;
        if (Entry* entry = is_short ? lookup(start, end, kShortBlock) : nullptr; entry != nullptr)
            return entry;
        return lookup(start, end, kLongBlock);
    }
    Entry* lookup(uint64_t start, uint64_t end, unsigned block_bits) const {
        const uint64_t block = uint64_t{1} << block_bits;
        for (const uint64_t where : {start, start - block, start + block})
            for (Entry& entry : set_of(where, block_bits)) {
                const uint64_t from = std::max(start, entry.start);
                const uint64_t to = std::min(end, entry.end);
                if (to <= from || !is_recent(entry)) continue;
                if (to - from >= (end - start) - (end - start) / 8) return &entry;
            }
        return nullptr;
    }

    uint64_t now_ = 0;
    uint64_t added_ = 0;  // entries, since the table has grown
    unsigned bits_ = kFewBits;
    std::unique_ptr<Set[]> sets_{new Set[size_t{1} << kFewBits]()};
};

}  // namespace tern
