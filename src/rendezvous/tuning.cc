// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/tuning.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "rendezvous/pages.h"
#include "rendezvous/schedule.h"

namespace tern {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = SubBlocks::kSubBlock;
constexpr size_t kRing = 8 * kBlock;  // what bytes are staged in; stays in the cache
constexpr size_t kUser = 512 * 1024;  // a user's buffer
constexpr double kUsualCache = 256 * 1024;

void forget(char* start, size_t size) {
#if defined(__x86_64__)
    for (size_t at = 0; at < size; at += 64) __builtin_ia32_clflush(start + at);
    __builtin_ia32_mfence();
#else
    (void)start;
    (void)size;
#endif
}

// Between the ring and `size` bytes of a user's buffer, as sub-blocks are. Bytes per second.
template <bool to_user>
double rate(char* user, char* ring, size_t size) {
    const Clock::time_point start = Clock::now();
    for (size_t at = 0; at < size; at += kBlock) {
        char* slot = ring + at % kRing;
        std::memcpy(to_user ? user + at : slot, to_user ? slot : user + at, kBlock);
        asm volatile("" ::: "memory");
    }
    const std::chrono::duration<double> time = Clock::now() - start;
    return static_cast<double>(size) / std::max(time.count(), 1e-9);
}

}  // namespace

CopyCosts measure_copies(double seconds) {
    const Clock::time_point start = Clock::now();
    CopyCosts costs;
#ifdef _SC_LEVEL2_CACHE_SIZE
    costs.cache = static_cast<double>(sysconf(_SC_LEVEL2_CACHE_SIZE));
#endif
    if (!(costs.cache > 0)) costs.cache = kUsualCache;

    const size_t fitting =
        std::clamp(static_cast<size_t>(costs.cache) / 2 / kBlock * kBlock, kBlock, kUser);
    const Pages user(kUser);
    const Pages ring(kRing);
    if (!user || !ring) return costs;
    double cached = 0;
    double from = 0;
    double to = 0;
    Clock::duration longest{};
    for (Clock::time_point now = start;
         longest == Clock::duration{} ||
         now + longest - start < std::chrono::duration<double>(seconds);) {
        forget(user.data(), kUser);
        from = std::max(from, rate<false>(user.data(), ring.data(), kUser));
        forget(user.data(), kUser);
        to = std::max(to, rate<true>(user.data(), ring.data(), kUser));
        // What the last two have left of it in the cache.
        for (int i = 0; i < 2; ++i)
            cached = std::max(cached, rate<false>(user.data(), ring.data(), fitting));
        const Clock::time_point end = Clock::now();
        longest = std::max(longest, end - now);
        now = end;
    }
    costs.cache_bandwidth = cached;
    costs.memory_bandwidth = std::min({from, to, cached});
    return costs;
}

}  // namespace tern
