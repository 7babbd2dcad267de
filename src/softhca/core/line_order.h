// SPDX-License-Identifier: BSD-3-Clause
// The order in which the lines of a copy into memory with relaxed ordering become visible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace softhca {

// Each line of the target once: the last one first, because programs poll the end of a message, and
// then the others by a constant step.
class LineOrder {
  public:
    static constexpr uint64_t kLine = 64;
    struct Line {
        uint64_t offset;  // in the copy
        uint64_t length;
    };

    LineOrder(uint64_t address, uint64_t length)
        : length_(length),
          head_(std::min(length, kLine - (address & (kLine - 1)))),
          count_(length == 0 ? 0 : 1 + (length - head_ + kLine - 1) / kLine),
          step_(step(count_)),
          at_(count_ - 1) {}

    bool done() const { return given_ == count_; }
    Line next() {
        const uint64_t line = at_;
        at_ = (at_ + step_) % count_;
        ++given_;
        if (line == 0) return {0, head_};
        const uint64_t offset = head_ + (line - 1) * kLine;
        return {offset, std::min(kLine, length_ - offset)};
    }

  private:
    // Has no factor in common with the count, so that all lines come.
    static uint64_t step(uint64_t count) {
        uint64_t step = count * 5 / 8 + 1;
        while (std::gcd(step, count) > 1) ++step;
        return step;
    }

    uint64_t length_;
    uint64_t head_;   // bytes of the first line
    uint64_t count_;  // of lines
    uint64_t step_;
    uint64_t at_;
    uint64_t given_ = 0;
};

}  // namespace softhca
