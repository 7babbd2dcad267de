// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern {

// A part of a message, and the way it takes to the receiver's memory. Parts follow each other
// without gaps; the receiver chooses the way of each.
struct Part {
    uint64_t upto = 0;     // end of the part in the message, in bytes
    uint64_t address = 0;  // placed: the receiver's memory for its first byte
    uint32_t rkey = 0;
    bool placed = false;  // written to its final place; otherwise staged in the ring
};

// A first-in, first-out queue. Up to two parts, enough for most messages, need no allocation.
class PartQueue {
  public:
    bool empty() const { return size() == 0; }
    size_t size() const { return last_ - first_; }
    const Part& front() const { return at(first_); }
    void push(const Part& part) {
        if (last_ < kFew)
            few_[last_] = part;
        else
            more_.push_back(part);
        ++last_;
    }
    void pop() { ++first_; }

  private:
    static constexpr size_t kFew = 2;

    const Part& at(size_t index) const { return index < kFew ? few_[index] : more_[index - kFew]; }

    Part few_[kFew];
    std::vector<Part> more_;
    size_t first_ = 0;
    size_t last_ = 0;
};

}  // namespace tern
