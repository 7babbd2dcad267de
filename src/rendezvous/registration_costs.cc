// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/registration_costs.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "verbs/handles.h"

namespace tern {

namespace {

constexpr size_t kShort = 16 * 1024;
constexpr size_t kLong = 512 * 1024;
constexpr int kTries = 3;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Seconds, the best of some tries; infinite if it fails.
double cost(ibv_pd* pd, void* memory, size_t length) {
    double best = kNever;
    for (int i = 0; i < kTries; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        const verbs::MemoryRegion region(
            ibv_reg_mr(pd, memory, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        if (!region) return kNever;
        best = std::min(best, time.count());
    }
    return best;
}

}  // namespace

RegistrationCosts measure_registration(ibv_pd* pd) {
    void* memory = mmap(nullptr, kLong, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return {.latency = kNever};
    RegistrationCosts costs;
    const double few = cost(pd, memory, kShort);
    const double many = cost(pd, memory, kLong);
    munmap(memory, kLong);
    if (few == kNever || many == kNever) return {.latency = kNever};
    if (many > few) costs.bandwidth = static_cast<double>(kLong - kShort) / (many - few);
    costs.latency = std::max(0.0, few - static_cast<double>(kShort) / costs.bandwidth);
    return costs;
}

}  // namespace tern
