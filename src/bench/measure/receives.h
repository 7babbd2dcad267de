// SPDX-License-Identifier: BSD-3-Clause
// The receives of a number of equal messages.
#pragma once

#include <algorithm>

#include "bench/measure/clock.h"
#include "bench/measure/link.h"

namespace bench {

/// Where the i-th of many messages of a size lies: few enough places to stay in the cache when the
/// messages are small.
inline uint64_t place_of(uint64_t i, uint32_t size, uint32_t places, size_t room) {
    return i % std::min<uint64_t>(places, room / size) * size;
}

class Receives {
  public:
    /// Posts as many as fit. In all `count` messages must be taken, or receives stay behind.
    Receives(Link& link, uint32_t size, uint64_t count) : link_(link), size_(size), count_(count) {
        refill();
    }

    /// Takes what messages there are; how many.
    int take() {
        const int got = link_.reap_receives();
        taken_ += static_cast<uint64_t>(got);
        return got;
    }
    void wait_for(uint64_t taken) {
        Patience patience("messages");
        while (taken_ < taken) {
            if (take() == 0) patience.spend();
        }
    }
    void refill() {
        for (; posted_ < count_ && posted_ - taken_ < Link::kDepth; ++posted_) {
            link_.post_receive(place_of(posted_, size_, Link::kDepth, link_.half()), size_);
        }
    }
    bool all_taken() const { return taken_ == count_; }

  private:
    Link& link_;
    const uint32_t size_;
    const uint64_t count_;
    uint64_t posted_ = 0;
    uint64_t taken_ = 0;
};

}  // namespace bench
