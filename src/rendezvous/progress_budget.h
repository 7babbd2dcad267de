// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "rendezvous/cost_model.h"

namespace tern {

// Bounds the work of one call of progress by the costs of the model, without a clock. Nothing
// begins when the work of the turn has taken kTime, and no registration that would end after
// kLongest, unless it is the first thing in the turn. The turn ends with the call of progress. Data
// path.
class ProgressBudget {
  public:
    static constexpr double kTime = 100e-6;  // seconds
    static constexpr double kLongest =
        175e-6;  // so that 2 MiB can be registered at once on graphene

    explicit ProgressBudget(const Costs& costs)
        : copied_(kSlowCopies / costs.copy.memory_bandwidth),
          look_(costs.registration.look),
          registration_(costs.registration.latency),
          registered_(1 / costs.registration.bandwidth) {}

    // Most bytes of one copy.
    static uint64_t longest_copy(const Costs& costs) {
        return bytes(kTime * costs.copy.memory_bandwidth, kLeastCopy, kMostCopy);
    }
    // Most bytes of one piece of a longer registration. A little less than what is registered at
    // once, because registrations are late at times, and other things happen in the same call.
    static uint64_t longest_piece(const Costs& costs) {
        const double wanted = (kPiece - costs.registration.latency) * costs.registration.bandwidth;
        return std::min(bytes(wanted, kLeastRegistration, kMostRegistration) / kUnit * kUnit,
                        longest_registration(costs));
    }
    // Most bytes of one registration: a power of two.
    static uint64_t longest_registration(const Costs& costs) {
        return std::bit_floor(
            bytes((kLongest - costs.registration.latency) * costs.registration.bandwidth,
                  kLeastRegistration, kMostRegistration));
    }

    bool over() const { return spent_ >= kTime; }
    // Whether a registration may begin. If not, the turn is over.
    bool may_register(uint64_t bytes) {
        if (over()) return false;
        const bool first = spent_ == 0 || (owes_ && !begun_);
        if (first || spent_ + registration(bytes) <= kLongest) return true;
        spent_ = kTime;
        put_off_ = true;
        return false;
    }
    // The turn was over because a registration did not fit in.
    bool put_off() const { return put_off_; }
    // Whether the kernel may be asked for a few pages, for a ring: once in a turn, because nobody
    // knows how long that takes. A registration that was put off comes first.
    bool may_provide() const { return !provided_ && !over() && !owes_; }
    bool has_provided() const { return provided_; }
    // The turn before this one was over before all transfers had had theirs. What has been left
    // comes first now: frames of peers only tell of work.
    bool behind() const { return behind_; }
    void copied(uint64_t bytes) {
        spent_ += static_cast<double>(bytes) * copied_;
        begun_ |= bytes != 0;
    }
    void registered(uint64_t bytes) {
        spent_ += registration(bytes);
        begun_ = true;
        owes_ = false;
    }
    void watched() { spent_ += kWatch; }
    // Has looked whether memory is pinned.
    void looked() { spent_ += look_; }
    void provided() {
        provided_ = true;
        spent_ += kProvision;
    }
    void renew() {
        behind_ = over();
        owes_ = put_off_;
        put_off_ = provided_ = begun_ = false;
        spent_ = 0;
    }

  private:
    // Copies were measured alone. The devices and the processors of other processes copy as well.
    static constexpr double kSlowCopies = 2;
    // Seconds to begin a transfer that has its buffer watched: two system calls, and the frame.
    static constexpr double kWatch = 16e-6;
    static constexpr double kProvision = kTime / 2;
    static constexpr double kPiece = 150e-6;
    static constexpr uint64_t kUnit = 256 << 10;
    static constexpr double kLeastCopy = 64 << 10;
    static constexpr double kMostCopy = 16 << 20;
    static constexpr double kLeastRegistration = 256 << 10;
    static constexpr double kMostRegistration = 16 << 20;

    static uint64_t bytes(double wanted, double least, double most) {
        return static_cast<uint64_t>(wanted > least ? std::min(wanted, most) : least);
    }

    double registration(uint64_t bytes) const {
        return registration_ + static_cast<double>(bytes) * registered_;
    }

    double copied_;
    double look_;
    double registration_;
    double registered_;
    double spent_ = 0;  // seconds
    bool behind_ = false;
    bool put_off_ = false;
    bool provided_ = false;
    bool owes_ = false;   // the turn before this one has put a registration off
    bool begun_ = false;  // something has been copied or registered
};

}  // namespace tern
