// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern {

// A part of a message, and how it gets to the receiver's memory. Parts follow each other; the
// receiver says how each is to come.
struct Part {
    uint64_t upto = 0;     // where it ends in the message, in bytes
    uint64_t address = 0;  // direct: of the memory that takes its first byte
    uint32_t rkey = 0;
    bool direct = false;  // written to where it belongs; otherwise staged in the ring
};

// Parts in order, first in first out. One or two, which is what most messages have, need no memory.
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
