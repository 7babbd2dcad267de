// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <utility>

namespace tern {

// A set of addresses, as ranges that do not overlap.
class WatchedRanges {
  public:
    bool contains(uint64_t start, uint64_t end) const {
        auto at = ranges_.upper_bound(start);
        if (at == ranges_.begin() || (--at)->second <= start) return false;
        for (uint64_t reached = at->second; reached < end; reached = at->second)
            if (++at == ranges_.end() || at->first != reached) return false;
        return true;
    }
    bool overlaps(uint64_t start, uint64_t end) const {
        const auto behind = ranges_.lower_bound(end);
        return behind != ranges_.begin() && std::prev(behind)->second > start;
    }
    // Ranges that only touch stay apart: each stands for mappings that the kernel keeps apart, and
    // size() bounds their number.
    void add(uint64_t start, uint64_t end) {
        auto at = ranges_.lower_bound(start);
        if (at != ranges_.begin() && std::prev(at)->second > start) --at;
        while (at != ranges_.end() && at->first < end) {
            start = std::min(start, at->first);
            end = std::max(end, at->second);
            at = ranges_.erase(at);
        }
        ranges_.emplace_hint(at, start, end);
    }
    // Adds a range; ranges that touch become one.
    void join(uint64_t start, uint64_t end) {
        const auto next = ranges_.find(end);
        if (next != ranges_.end()) end = next->second;
        const auto at = ranges_.lower_bound(start);
        if (at != ranges_.begin() && std::prev(at)->second == start) start = std::prev(at)->first;
        add(start, end);
    }
    void remove(uint64_t start, uint64_t end) {
        auto at = ranges_.lower_bound(start);
        if (at != ranges_.begin() && std::prev(at)->second > start) --at;
        while (at != ranges_.end() && at->first < end) {
            const auto [first, last] = *at;
            at = ranges_.erase(at);
            if (first < start) keep(at, first, start);
            if (last > end) keep(at, end, last);
        }
    }
    // The first range that begins at or behind an address, or else the first of all. The set must
    // not be empty.
    std::pair<uint64_t, uint64_t> after(uint64_t address) const {
        const auto at = ranges_.lower_bound(address);
        return at != ranges_.end() ? *at : *ranges_.begin();
    }
    // The range that an address is in; an empty one if there is none.
    std::pair<uint64_t, uint64_t> at(uint64_t address) const {
        const auto behind = ranges_.upper_bound(address);
        if (behind == ranges_.begin() || std::prev(behind)->second <= address) return {};
        return *std::prev(behind);
    }
    // In ranges, not in bytes.
    size_t size() const { return ranges_.size(); }
    auto begin() const { return ranges_.begin(); }
    auto end() const { return ranges_.end(); }

  private:
    using Ranges = std::map<uint64_t, uint64_t>;

    // Adds what is left of a range, or nothing if there is no memory.
    void keep(Ranges::iterator before, uint64_t start, uint64_t end) {
        try {
            ranges_.emplace_hint(before, start, end);
        } catch (const std::bad_alloc&) {
        }
    }

    Ranges ranges_;
};

// Mappings of this process that follow one another without a gap, each as a whole.
struct Mappings {
    uint64_t start = 0;
    uint64_t end = 0;
    bool followed = false;  // another private mapping of no file begins at `end`
    bool other = false;     // a part of the range is shared or comes from a file
};

// The mappings that have a part of this range, and the reserved mappings (without any access) next
// to them: allocators open reserved memory piece by piece, and then the kernel merges the pieces.
// False: there is a gap, or memory that is shared or comes from a file. No other process can take
// the pages of private memory that comes from no file.
//
// `by_query`: not by a list of all mappings, unless the kernel is older than 6.11.
bool private_mappings(uint64_t start, uint64_t end, Mappings& whole, bool by_query = true);

}  // namespace tern
