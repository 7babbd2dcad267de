// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "common/assert.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {

// A barrier, or a gathering of one address of each process at all of them, in log2(size) steps
// (Bruck's algorithm). In step k, a process sends all addresses that it has, up to 2^k, to the
// process 2^k before it, and gets as many from the process 2^k behind it. A process that has ended
// is skipped: its address and those that only it had remain zeros, and all who miss one know it.
class Gathering {
  public:
    Gathering(uint32_t rank, uint32_t size) : rank_(rank), size_(size) {}

    // The number of steps, and the step that this process is in.
    uint32_t steps() const { return static_cast<uint32_t>(std::bit_width(size_ - 1)); }
    uint32_t step() const { return step_; }
    bool over() const { return step_ == steps(); }

    // Of a step: to whom this process sends, from whom it receives, and how many addresses, if
    // addresses are gathered.
    uint32_t to(uint32_t step) const { return (rank_ + size_ - distance(step)) % size_; }
    uint32_t from(uint32_t step) const { return (rank_ + distance(step)) % size_; }
    uint32_t items(uint32_t step) const { return std::min(distance(step), size_ - distance(step)); }

    // This process begins. own: its address; null: a barrier.
    void begin(const rwapi_net* own) {
        has_items_ = own != nullptr;
        if (own != nullptr) place(0, {own, 1});
    }
    // What is to be sent in this step, from the address number `first` on, at most `most`.
    std::span<const rwapi_net> outgoing(uint32_t first, uint32_t most) const {
        if (!has_items_) return {};
        return std::span(items_).subspan(first, std::min(items(step_) - first, most));
    }
    // Goes on to the next step. What this step sends has been sent, and what it gets has come.
    void finish_step() {
        TERN_ASSERT(has_come(step_));
        ++step_;
    }

    // A part of what a step gets, also before this process is there. last: nothing follows. False:
    // there is no such part.
    bool on_part(uint32_t step, uint32_t first, std::span<const rwapi_net> part, bool last) {
        if (step >= steps() || has_come(step) || part.size() > items(step) ||
            first > items(step) - part.size())
            return false;
        if (!part.empty()) place(distance(step) + first, part);
        if (last) come_ |= 1u << step;
        return true;
    }
    bool has_come(uint32_t step) const { return come_ >> step & 1; }
    // The process that this step gets something from has ended, or misses an address itself.
    void miss(uint32_t step) {
        come_ |= 1u << step;
        missing_ = true;
    }
    void miss() { missing_ = true; }
    bool missing() const { return missing_; }

    // The addresses of all processes, in the order of their ranks.
    void copy(rwapi_net* all) const {
        for (uint32_t i = 0; i < size_; ++i)
            all[(rank_ + i) % size_] = i < items_.size() ? items_[i] : rwapi_net{};
    }

  private:
    static uint32_t distance(uint32_t step) { return 1u << step; }
    void place(uint32_t first, std::span<const rwapi_net> part) {
        if (items_.empty()) items_.resize(size_);
        std::ranges::copy(part, items_.begin() + first);
    }

    uint32_t rank_, size_;
    uint32_t step_ = 0;
    uint32_t come_ = 0;  // a bit for each step
    bool has_items_ = false;
    bool missing_ = false;
    std::vector<rwapi_net> items_;  // the first is this process's, the next that of the next rank
};

}  // namespace rwapi
