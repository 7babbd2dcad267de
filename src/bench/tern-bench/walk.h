// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "bench/tern-bench/arm.h"

namespace bench {

// The longest message that is measured, and the memory that messages walk through in one direction.
constexpr uint64_t kLongest = uint64_t{16} << 20;
constexpr uint64_t kGround = uint64_t{96} << 20;

// Where the messages of a ping-pong lie in it. No two buffers share a page, nor do they touch, or a
// registration cache could take two for one. Both workers of a pair walk the same way.
class Walk {
  public:
    // Before the messages of an order. True if the ground behind the last buffer is too short for
    // all of them: the walk is at the beginning again.
    bool begin(const Order& order) {
        stride_ = order.buffers == Buffers::kFresh ? stride(order.size) : 0;
        const uint64_t buffers = stride_ == 0 ? 1 : order.count;
        const bool again = next_ + buffers * stride(order.size) > kGround;
        at_ = again ? 0 : next_;
        next_ = at_ + buffers * stride(order.size);
        return again;
    }
    // Offset of the next message.
    uint64_t step() {
        const uint64_t at = at_;
        at_ += stride_;
        return at;
    }

    // How many messages of a size fit on the ground.
    static uint64_t most(uint32_t size) { return kGround / stride(size); }

  private:
    static constexpr uint64_t kPage = 4096;
    static uint64_t stride(uint32_t size) { return (size + kPage - 1) / kPage * kPage + kPage; }

    uint64_t stride_ = 0;
    uint64_t at_ = 0;
    uint64_t next_ = 0;
};

}  // namespace bench
