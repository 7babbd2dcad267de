// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/assert.h"

namespace rwapi {

// A barrier, or a gathering of one item of each process at all of them, in log2(size) steps
// (Bruck's algorithm). In step k, a process sends all items that it has, up to 2^k, to the process
// 2^k before it, and gets as many from the process 2^k behind it. A process that has ended is
// skipped: its item and those that only it had remain zeros, and all who miss one know it.
class Gathering {
  public:
    // bytes: of an item.
    Gathering(uint32_t rank, uint32_t size, size_t bytes)
        : bytes_(bytes), rank_(rank), size_(size) {}

    // The number of steps, and the step that this process is in.
    uint32_t steps() const { return static_cast<uint32_t>(std::bit_width(size_ - 1)); }
    uint32_t step() const { return step_; }
    bool over() const { return step_ == steps(); }

    // Of a step: to whom this process sends, from whom it receives, and how many items, if there
    // are any.
    uint32_t to(uint32_t step) const { return (rank_ + size_ - distance(step)) % size_; }
    uint32_t from(uint32_t step) const { return (rank_ + distance(step)) % size_; }
    uint32_t items(uint32_t step) const { return std::min(distance(step), size_ - distance(step)); }

    // This process begins. own: its item; empty: a barrier.
    void begin(std::span<const std::byte> own) {
        has_items_ = !own.empty();
        if (has_items_) place(0, own);
    }
    // What is to be sent in this step, from the item number `first` on, at most `most`.
    std::span<const std::byte> outgoing(uint32_t first, uint32_t most) const {
        if (!has_items_) return {};
        return std::span(items_).subspan(first * bytes_,
                                         std::min(items(step_) - first, most) * bytes_);
    }
    // Goes on to the next step. What this step sends has been sent, and what it gets has come.
    void finish_step() {
        TERN_ASSERT(has_come(step_));
        ++step_;
    }

    // A part of what a step gets, also before this process is there. last: nothing follows. False:
    // there is no such part.
    bool on_part(uint32_t step, uint32_t first, std::span<const std::byte> part, bool last) {
        const size_t count = part.size() / bytes_;
        if (step >= steps() || has_come(step) || part.size() % bytes_ != 0 || count > items(step) ||
            first > items(step) - count)
            return false;
        if (!part.empty()) place(distance(step) + first, part);
        if (last) come_ |= 1u << step;
        return true;
    }
    bool has_come(uint32_t step) const { return come_ >> step & 1; }
    // The process that this step gets something from has ended, or misses an item itself.
    void miss(uint32_t step) {
        come_ |= 1u << step;
        missing_ = true;
    }
    void miss() { missing_ = true; }
    bool missing() const { return missing_; }

    // Calls take(rank, item) for each item that has come.
    template <class Take>
    void for_each(Take take) const {
        for (uint32_t i = 0; i * bytes_ < items_.size(); ++i)
            take((rank_ + i) % size_, std::span(items_).subspan(i * bytes_, bytes_));
    }

  private:
    static uint32_t distance(uint32_t step) { return 1u << step; }
    void place(uint32_t first, std::span<const std::byte> part) {
        if (items_.empty()) items_.resize(size_ * bytes_);
        std::ranges::copy(part, items_.begin() + static_cast<ptrdiff_t>(first * bytes_));
    }

    size_t bytes_;
    uint32_t rank_, size_;
    uint32_t step_ = 0;
    uint32_t come_ = 0;  // a bit for each step
    bool has_items_ = false;
    bool missing_ = false;
    std::vector<std::byte> items_;  // the first is this process's, the next that of the next rank
};

}  // namespace rwapi
