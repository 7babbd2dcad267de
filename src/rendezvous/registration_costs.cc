// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/registration_costs.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "rendezvous/pages.h"
#include "verbs/handles.h"

namespace tern {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kShort = 16 * 1024;
constexpr size_t kLong = 512 * 1024;
constexpr int kTries = 3;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Seconds, the best of some tries; infinite if it fails.
double cost(ibv_pd* pd, void* memory, size_t length) {
    double best = kNever;
    for (int i = 0; i < kTries; ++i) {
        const auto begin = Clock::now();
        const verbs::MemoryRegion region(
            ibv_reg_mr(pd, memory, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
        const std::chrono::duration<double> time = Clock::now() - begin;
        if (!region) return kNever;
        best = std::min(best, time.count());
    }
    return best;
}

}  // namespace

RegistrationCosts measure_registration(ibv_pd* pd) {
    const Pages memory(kLong);
    if (!memory) return {.latency = kNever};
    RegistrationCosts costs;
    const double few = cost(pd, memory.data(), kShort);
    const double many = cost(pd, memory.data(), kLong);
    if (few == kNever || many == kNever) return {.latency = kNever};
    if (many > few) costs.bandwidth = static_cast<double>(kLong - kShort) / (many - few);
    costs.latency = std::max(0.0, few - static_cast<double>(kShort) / costs.bandwidth);
    return costs;
}

double measure_look(PinCache& pins) {
    const Pages memory(kShort);
    if (!memory) return 0;
    double best = kNever;
    for (int i = 0; i <= kTries; ++i) {
        const auto begin = Clock::now();
        Pin* pin = pins.pin(memory.data(), kShort, kLocalRead);
        const std::chrono::duration<double> time = Clock::now() - begin;
        if (pin == nullptr) return 0;
        pins.release(pin);
        if (i != 0) best = std::min(best, time.count());
    }
    pins.invalidate(memory.data(), memory.data() + kShort);
    return best;
}

}  // namespace tern
