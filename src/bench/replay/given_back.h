// SPDX-License-Identifier: BSD-3-Clause
// Which memory of messages the program gives back to the system while it is recorded: what a
// transport has pinned there is lost, and the next buffer at the same addresses is new memory.
// Pure, and without UCX.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace bench::replay {

class GivenBack {
  public:
    // The buffer of a message: only pages with such memory are told of.
    void used(uint64_t address, uint64_t bytes) {
        if (bytes == 0) return;
        busy_ = true;
        uint64_t begin = address / kPage * kPage;
        uint64_t end = (address + bytes + kPage - 1) / kPage * kPage;
        auto at = pages_.upper_bound(begin);
        if (at != pages_.begin() && std::prev(at)->second >= begin) --at;
        while (at != pages_.end() && at->first <= end) {
            begin = std::min(begin, at->first);
            end = std::max(end, at->second);
            at = pages_.erase(at);
        }
        pages_[begin] = end;
        busy_ = false;
    }

    // Pages were unmapped. It allocates nothing, because malloc may be what unmaps, with its lock
    // held. False: there is no room for it.
    bool unmapped(uint64_t address, uint64_t bytes) {
        const uint64_t end = address + bytes;
        if (!busy_ && (pages_.empty() || first_in(address, end) == pages_.end())) return true;
        if (count_ == unmapped_.size()) return false;
        unmapped_[count_++] = {address, end};
        return true;
    }

    // Calls tell(address, bytes) for all that was unmapped since the last call, in its order.
    template <typename Tell>
    void take(Tell tell) {
        for (size_t i = 0; i < count_; ++i) {
            const auto [begin, end] = unmapped_[i];
            for (auto at = first_in(begin, end); at != pages_.end(); at = first_in(begin, end)) {
                const auto [first, last] = *at;
                const uint64_t from = std::max(first, begin);
                const uint64_t to = std::min(last, end);
                tell(from, to - from);
                busy_ = true;
                pages_.erase(at);
                if (first < from) pages_[first] = from;
                if (to < last) pages_[to] = last;
                busy_ = false;
            }
        }
        count_ = 0;
    }

  private:
    struct Range {
        uint64_t begin;
        uint64_t end;
    };
    static constexpr uint64_t kPage = 4096;

    std::map<uint64_t, uint64_t>::iterator first_in(uint64_t begin, uint64_t end) {
        auto at = pages_.upper_bound(begin);
        if (at != pages_.begin() && std::prev(at)->second > begin) --at;
        return at != pages_.end() && at->first < end ? at : pages_.end();
    }

    std::map<uint64_t, uint64_t> pages_;  // of messages, and there: begin, end
    bool busy_ = false;                   // `pages_` is changing
    std::array<Range, 4096> unmapped_{};  // not yet told
    size_t count_ = 0;
};

}  // namespace bench::replay
