// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tern/base/tunables.h"
#include "tern/rendezvous/cost_model.h"

namespace tern {

// Bounds the work of one call of progress by the costs of the model, without a clock. Nothing
// begins when the work of the call has taken kProgressTime, and no registration that would end
// after kLongestProgress, unless nothing has been done before it. Each call of progress ends with
// renew(). Data path.
class ProgressBudget {
  public:
    explicit ProgressBudget(const Costs& costs)
        : copied_(kSlowCopies / costs.copy.memory_bandwidth),
          look_(costs.registration.look),
          registration_(costs.registration.latency),
          registered_(1 / costs.registration.bandwidth) {}

    // Most bytes of one copy.
    static uint64_t longest_copy(const Costs& costs) {
        return bytes(kProgressTime * costs.copy.memory_bandwidth, kLeastCopy, kMostCopy);
    }
    // Most bytes of one piece of a longer registration. A little less than what is registered at
    // once, because registrations are late at times, and other things happen in the same call.
    static uint64_t longest_piece(const Costs& costs) {
        const double wanted =
            (kPieceTime - costs.registration.latency) * costs.registration.bandwidth;
        return std::min(bytes(wanted, kLeastRegistration, kMostRegistration) / kUnit * kUnit,
                        longest_registration(costs));
    }
    // Most bytes of one registration: a power of two.
    static uint64_t longest_registration(const Costs& costs) {
        return std::bit_floor(
            bytes((kLongestProgress - costs.registration.latency) * costs.registration.bandwidth,
                  kLeastRegistration, kMostRegistration));
    }

    bool over() const { return spent_ >= kProgressTime; }
    // Whether a registration may begin. If not, the budget is spent.
    bool may_register(uint64_t bytes) {
        // Looks alone may have spent the budget.
        if (!begun_ || (!over() && spent_ + registration(bytes) <= kLongestProgress)) return true;
        if (!over()) spend(kProgressTime);
        return false;
    }
    // Whether a ring may be registered, which is counted then: once in a call, because the kernel
    // has to provide its pages first.
    bool may_make_ring(uint64_t bytes) {
        if (made_ring_ || over() || !may_register(bytes)) return false;
        made_ring_ = true;
        registered(bytes);
        return true;
    }
    // The budget of the call before was spent before all transfers had been moved on. The others
    // come first now, so frames of peers do not move transfers on at once.
    bool behind() const { return behind_; }
    // Whether the next call may have to do what this one has left: a transfer may wait for a second
    // ring.
    bool leaves_work() const { return over() || behind() || made_ring_; }
    void copied(uint64_t bytes) {
        spend(static_cast<double>(bytes) * copied_);
        begun_ |= bytes != 0;
    }
    void registered(uint64_t bytes) {
        spend(registration(bytes));
        begun_ = true;
    }
    void watched() { spend(kWatch); }
    // A pin has been looked up.
    void looked() { spend(look_); }
    // Whether renew() changes anything.
    bool is_changed() const { return changed_; }
    void renew() {
        if (changed_) [[unlikely]]
            begin_anew();
    }

  private:
    // Seconds to begin a transfer whose buffer is watched from now on: two system calls, and the
    // frame.
    static constexpr double kWatch = 16e-6;
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
    void spend(double seconds) {
        spent_ += seconds;
        changed_ = true;
    }
    [[gnu::noinline]] void begin_anew() {
        behind_ = over();
        made_ring_ = begun_ = false;
        spent_ = 0;
        // What the next call is to know of this one, it is not to hand on.
        changed_ = behind_;
    }

    double copied_;
    double look_;
    double registration_;
    double registered_;
    double spent_ = 0;  // seconds
    bool behind_ = false;
    bool made_ring_ = false;
    bool begun_ = false;    // something has been copied or registered
    bool changed_ = false;  // this is not the budget of a call after one that did nothing
};

}  // namespace tern
