// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "rendezvous/cost_model.h"

namespace tern {

// Bounds the work of one call of progress by the costs of the model, without a clock. No copy and
// no registration begins when those of the turn have taken kTime; none takes more than kLongest.
// The turn ends with the call of progress. Data path.
class Turn {
  public:
    static constexpr double kTime = 100e-6;  // seconds
    static constexpr double kLongest =
        175e-6;  // so that 2 MiB can be registered at once on graphene

    explicit Turn(const Costs& costs)
        : copied_(1 / costs.copy.memory_bandwidth),
          registration_(costs.registration.latency),
          registered_(1 / costs.registration.bandwidth) {}

    // Most bytes of one copy.
    static uint64_t longest_copy(const Costs& costs) {
        return bytes(kTime * costs.copy.memory_bandwidth, kLeastCopy, kMostCopy);
    }
    // Most bytes of one registration: a power of two.
    static uint64_t longest_registration(const Costs& costs) {
        return std::bit_floor(
            bytes((kLongest - costs.registration.latency) * costs.registration.bandwidth,
                  kLeastRegistration, kMostRegistration));
    }

    bool over() const { return spent_ >= kTime; }
    // The turn before this one was over before all transfers had had theirs. What has been left
    // comes first now: frames of peers only tell of work.
    bool behind() const { return behind_; }
    void copied(uint64_t bytes) { spent_ += static_cast<double>(bytes) * copied_; }
    void registered(uint64_t bytes) {
        spent_ += registration_ + static_cast<double>(bytes) * registered_;
    }
    void renew() {
        behind_ = over();
        spent_ = 0;
    }

  private:
    static constexpr double kLeastCopy = 64 << 10;
    static constexpr double kMostCopy = 16 << 20;
    static constexpr double kLeastRegistration = 256 << 10;
    static constexpr double kMostRegistration = 16 << 20;

    static uint64_t bytes(double wanted, double least, double most) {
        return static_cast<uint64_t>(wanted > least ? std::min(wanted, most) : least);
    }

    double copied_;
    double registration_;
    double registered_;
    double spent_ = 0;  // seconds
    bool behind_ = false;
};

}  // namespace tern
