// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace tern {

// Whether this process keeps the receivers of its messages waiting, because it computes instead of
// calling the library: then it should register its messages when it announces them, so that the
// receivers read them without it. For any thread. If threads call note() at the same time, some of
// the samples may be lost, which changes the average little.
class Lateness {
  public:
    // A peer has fetched a message with this side's help, and had to wait for it if `waited`.
    void note(bool waited) {
        const uint32_t share = share_.load(std::memory_order_relaxed);
        share_.store(share - share / kWeight + (waited ? kOne / kWeight : 0),
                     std::memory_order_relaxed);
    }
    // Whether to make the next message readable. One of kProbe is not, to see whether it still
    // would have to wait.
    bool publishes() {
        return share_.load(std::memory_order_relaxed) > kLate &&
               count_.fetch_add(1, std::memory_order_relaxed) % kProbe != 0;
    }

  private:
    static constexpr uint32_t kOne = 1 << 16;
    static constexpr uint32_t kLate = kOne / 4;
    static constexpr uint32_t kWeight = 8;  // messages that the average is over, about
    static constexpr uint32_t kProbe = 16;

    std::atomic<uint32_t> share_{0};  // of messages that waited, a moving average
    std::atomic<uint32_t> count_{1};
};

}  // namespace tern
