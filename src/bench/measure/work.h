// SPDX-License-Identifier: BSD-3-Clause
// Something to compute that takes a known time of a processor, as long as nobody else gets it.
#pragma once

#include <cstdint>

namespace bench {

class Work {
  public:
    /// `ns`: nanoseconds.
    explicit Work(double ns);

    void operator()() const { spin(turns_); }
    /// What it takes.
    double ns() const { return static_cast<double>(turns_) * turn_ns(); }

  private:
    static void spin(uint64_t turns);
    /// Measured once, as the least of many tries.
    static double turn_ns();

    uint64_t turns_;
};

}  // namespace bench
