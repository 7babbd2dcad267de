// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rendezvous/cost_model.h"

namespace tern {

// Measures how fast this processor copies: from the cache, and to or from memory, whichever is
// slower. Gives the best of the rounds that fit into `seconds`, at least one (half a millisecond).
// Without memory for it, copies are said to be infinitely fast.
CopyCosts measure_copies(double seconds = 1e-3);

// What the network turns out to carry: the median of the last transfers that kept it busy. It
// begins with what the port says and leaves that when half of the memory says otherwise. Half of
// the transfers may be disturbed and it does no harm. No clock.
class Estimator {
  public:
    static constexpr size_t kMemory = 15;
    static constexpr uint64_t kLeast = 64 * 1024;  // bytes; what takes less time says little

    explicit Estimator(double bandwidth) : bandwidth_(bandwidth) { rates_.fill(bandwidth); }

    // A transfer of `bytes` kept the network busy for `seconds`. True if bandwidth() has changed,
    // which it does in steps of a twentieth and more.
    bool add(uint64_t bytes, double seconds);

    double bandwidth() const { return bandwidth_; }  // bytes per second

  private:
    std::array<double, kMemory> rates_;
    size_t next_ = 0;
    double bandwidth_;
};

}  // namespace tern
