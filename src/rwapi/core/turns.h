// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>

namespace rwapi {

// Looks at a few of many, each in its turn, so that a round takes the same time however many there
// are.
class Turns {
  public:
    // Calls visit(index) for the next `most` of `count`, or for all if there are fewer.
    template <class Visit>
    void round(size_t count, size_t most, Visit visit) {
        for (size_t left = std::min(count, most); left != 0; --left) {
            if (at_ >= count) at_ = 0;
            visit(at_++);
        }
    }

  private:
    size_t at_ = 0;
};

}  // namespace rwapi
