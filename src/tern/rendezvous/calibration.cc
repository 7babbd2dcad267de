// SPDX-License-Identifier: BSD-3-Clause
// Measures the costs of this processor and this device.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "tern/base/trace.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/rendezvous/cost_model.h"
#include "tern/rendezvous/schedule.h"
#include "tern/verbs/handles.h"
#include "tern/verbs/memory.h"

namespace tern {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = SubBlocks::kSubBlock;
constexpr size_t kUser = 512 * 1024;  // stands for a user's buffer
constexpr double kUsualCache = 256 * 1024;
// What a device has written to a ring is not in this processor's own cache. So the receiver's
// copies are measured from memory that is longer than that cache, in turn; up to this length.
constexpr size_t kMostRings = 8 << 20;

// Anonymous memory with all pages present. In a virtual machine MAP_POPULATE alone is not enough:
// the host provides a page when it is accessed first, which takes up to 14 us and no page fault of
// the guest's. So each page is written to.
class Pages {
  public:
    explicit Pages(size_t size)
        : size_(size),
          start_(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {
        if (*this) verbs::touch_pages(start_, size_);
    }
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

// The slots of rings, one after the other.
class Slots {
  public:
    explicit Slots(size_t size) : count_(size / SubBlocks::kSlot), memory_(size) {}

    explicit operator bool() const { return static_cast<bool>(memory_); }
    char* next() {
        at_ = at_ + 1 < count_ ? at_ + 1 : 0;
        return memory_.data() + at_ * SubBlocks::kSlot;
    }

  private:
    size_t count_;
    size_t at_ = 0;
    Pages memory_;
};

// Bytes per second of a copy between slots and `size` bytes of the user's buffer, in sub-blocks, by
// calls of the C library: the transfers' lengths are not known to the compiler either.
template <bool to_user>
double rate(char* user, Slots& slots, size_t size) {
    size_t block = kBlock;
    asm volatile("" : "+r"(block));
    const Clock::time_point start = Clock::now();
    for (size_t at = 0; at < size; at += kBlock) {
        char* slot = slots.next();
        std::memcpy(to_user ? user + at : slot, to_user ? slot : user + at, block);
        asm volatile("" ::: "memory");
    }
    const std::chrono::duration<double> time = Clock::now() - start;
    return static_cast<double>(size) / std::max(time.count(), 1e-9);
}

constexpr size_t kShort = 16 * 1024;
constexpr size_t kLong = 512 * 1024;
constexpr int kTries = 5;   // other processes may do the same at the same time
constexpr int kRounds = 3;  // of the copies, half a millisecond each
constexpr double kNever = std::numeric_limits<double>::infinity();

// Seconds; infinite if the registration fails.
struct RegistrationTimes {
    double begin = kNever;
    double end = kNever;
};

// The best of kTries. A first try does not count: it also measures what the driver and the kernel
// do once.
RegistrationTimes registration_times(ibv_pd* pd, void* memory, size_t length, int access) {
    RegistrationTimes best;
    for (int i = 0; i <= kTries; ++i) {
        const auto start = Clock::now();
        verbs::MemoryRegion region(ibv_reg_mr(pd, memory, length, access));
        const auto registered = Clock::now();
        if (!region) return {};
        region.reset();
        const std::chrono::duration<double> begin = registered - start;
        const std::chrono::duration<double> end = Clock::now() - registered;
        if (i == 0) continue;
        best = {std::min(best.begin, begin.count()), std::min(best.end, end.count())};
    }
    return best;
}

// A straight line through the times of a short and a long one.
void fit(double few, double many, double& fixed, double& bandwidth) {
    if (many > few) bandwidth = static_cast<double>(kLong - kShort) / (many - few);
    fixed = std::max(0.0, few - static_cast<double>(kShort) / bandwidth);
}

RegistrationCosts measure_registration(ibv_pd* pd, int access) {
    const Pages memory(kLong);
    if (!memory) return {.latency = kNever};
    RegistrationCosts costs;
    const RegistrationTimes few = registration_times(pd, memory.data(), kShort, access);
    const RegistrationTimes many = registration_times(pd, memory.data(), kLong, access);
    if (few.begin == kNever || many.begin == kNever) return {.latency = kNever};
    fit(few.begin, many.begin, costs.latency, costs.bandwidth);
    fit(few.end, many.end, costs.release, costs.release_bandwidth);
    return costs;
}

// Of registrations as the cache of pins makes them. Paging on demand counts as pins: the device
// faults the pages in at the first access, one by one, which does not take less than to pin them.
// If no memory can be pinned, the limit of locked memory is low, which does not bind it.
RegistrationCosts measure_registration(ibv_pd* pd, bool on_demand) {
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    const RegistrationCosts pinned = measure_registration(pd, kAccess);
    if (!on_demand || pinned.latency != kNever) return pinned;
    return measure_registration(pd, kAccess | IBV_ACCESS_ON_DEMAND);
}

}  // namespace

CopyCosts measure_copies() {
    CopyCosts costs;
#ifdef _SC_LEVEL2_CACHE_SIZE
    costs.cache = static_cast<double>(sysconf(_SC_LEVEL2_CACHE_SIZE));
#endif
    if (!(costs.cache > 0)) costs.cache = kUsualCache;

    const size_t fitting =
        std::clamp(static_cast<size_t>(costs.cache) / 2 / kBlock * kBlock, kBlock, kUser);
    const Pages user(kUser);
    Slots staging(8 * SubBlocks::kSlot);  // stays in the cache
    Slots rings(std::min(static_cast<size_t>(2 * costs.cache), kMostRings));
    if (!user || !staging || !rings) return costs;
    double cached = 0;
    double from = 0;
    double to = 0;
    // The first round does not count: it accesses the memory and the code for the first time.
    for (int i = 0; i <= kRounds; ++i) {
        forget(user.data(), kUser);
        const double from_now = rate<false>(user.data(), staging, kUser);
        forget(user.data(), kUser);
        const double to_now = rate<true>(user.data(), rings, kUser);
        // The first run may still have to load the user's buffer into the cache.
        double cached_now = 0;
        for (int j = 0; j < 2; ++j)
            cached_now = std::max(cached_now, rate<true>(user.data(), rings, fitting));
        if (i == 0) continue;
        from = std::max(from, from_now);
        to = std::max(to, to_now);
        cached = std::max(cached, cached_now);
    }
    costs.cache_bandwidth = cached;
    costs.memory_bandwidth = std::min({from, to, cached});
    return costs;
}

double measure_look(PinCache& pins) {
    const Pages memory(kShort);
    Pin* const held = memory ? pins.pin(memory.data(), kShort, kLocalRead) : nullptr;
    if (held == nullptr) return 0;
    double best = kNever;
    for (int i = 0; i <= kTries; ++i) {
        const auto begin = Clock::now();
        Pin* const found = pins.find(memory.data(), kShort, kLocalRead);
        const std::chrono::duration<double> time = Clock::now() - begin;
        if (found != nullptr) pins.release(found);
        if (i != 0) best = std::min(best, time.count());
    }
    pins.release(held);
    pins.invalidate(memory.data(), memory.data() + kShort);
    return best;
}

Costs calibrate(ibv_pd* pd, PinCache& pins) {
    Costs costs;
    costs.copy = measure_copies();
    costs.registration = measure_registration(pd, pins.monitor() == MonitorKind::kOdp);
    costs.registration.look = measure_look(pins);
    TERN_DEBUG(
        "measured: copies %.1f GB/s in %.0f KiB of cache, %.1f GB/s in memory; "
        "registration %.2f us and %.1f GB/s, release %.2f us, look-up %.0f ns",
        costs.copy.cache_bandwidth / 1e9, costs.copy.cache / 1024,
        costs.copy.memory_bandwidth / 1e9, costs.registration.latency * 1e6,
        costs.registration.bandwidth / 1e9, costs.registration.release * 1e6,
        costs.registration.look * 1e9);
    return costs;
}

}  // namespace tern
