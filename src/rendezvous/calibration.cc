// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/calibration.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "rendezvous/schedule.h"
#include "verbs/handles.h"

namespace tern {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = SubBlocks::kSubBlock;
constexpr size_t kRing = 8 * kBlock;  // stands for a ring; stays in the cache
constexpr size_t kUser = 512 * 1024;  // stands for a user's buffer
constexpr double kUsualCache = 256 * 1024;

// Anonymous memory with all pages present.
class Pages {
  public:
    explicit Pages(size_t size)
        : size_(size),
          start_(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {}
    ~Pages() {
        if (*this) munmap(start_, size_);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    explicit operator bool() const { return start_ != MAP_FAILED; }
    char* data() const { return static_cast<char*>(start_); }

  private:
    size_t size_;
    void* start_;
};

void forget(char* start, size_t size) {
#if defined(__x86_64__)
    for (size_t at = 0; at < size; at += 64) __builtin_ia32_clflush(start + at);
    __builtin_ia32_mfence();
#else
    (void)start;
    (void)size;
#endif
}

// Bytes per second of a copy between the ring and `size` bytes of the user's buffer, in sub-blocks.
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

constexpr size_t kShort = 16 * 1024;
constexpr size_t kLong = 512 * 1024;
constexpr int kTries = 3;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Seconds that a registration takes, the best of kTries; infinite if it fails.
double registration_time(ibv_pd* pd, void* memory, size_t length) {
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

// A straight line through the best short and the best long registration.
RegistrationCosts measure_registration(ibv_pd* pd) {
    const Pages memory(kLong);
    if (!memory) return {.latency = kNever};
    RegistrationCosts costs;
    const double few = registration_time(pd, memory.data(), kShort);
    const double many = registration_time(pd, memory.data(), kLong);
    if (few == kNever || many == kNever) return {.latency = kNever};
    if (many > few) costs.bandwidth = static_cast<double>(kLong - kShort) / (many - few);
    costs.latency = std::max(0.0, few - static_cast<double>(kShort) / costs.bandwidth);
    return costs;
}

// Seconds to find that memory is pinned already; 0 if it cannot be pinned.
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
        // The first run may still have to load bytes into the cache.
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

Costs calibrate(ibv_pd* pd, PinCache& pins) {
    Costs costs;
    costs.copy = measure_copies();
    costs.registration = measure_registration(pd);
    costs.registration.look = measure_look(pins);
    return costs;
}

}  // namespace tern
