// SPDX-License-Identifier: BSD-3-Clause
// A spin lock in shared memory that survives its owner: the lock word names the owning process. If
// that process has died, the next one takes the lock over and repairs the protected data.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>

namespace softhca {

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// What RobustLock needs from the fabric. tag(): names this process, never 0. owner_dead(tag):
// whether no thread of that process runs any more. yield(round): gives up the core in the round-th
// round of a wait, for longer in later rounds.
template <typename T>
concept LockOwner = requires(T t, uint32_t tag) {
    { t.tag() } -> std::same_as<uint32_t>;
    { t.owner_dead(tag) } -> std::same_as<bool>;
    t.yield(uint32_t{});
};

class RobustLock {
  public:
    // Takes the lock. If the lock was taken over from a dead owner, runs `repair` with the lock
    // held.
    template <typename Owner, typename Repair>
    void lock(Owner&& self, Repair&& repair) {
        uint32_t seen = 0;
        if (word_.compare_exchange_strong(seen, self.tag(), std::memory_order_acquire)) return;
        for (unsigned spins = 1;; ++spins) {
            seen = word_.load(std::memory_order_relaxed);
            if (seen == 0) {
                if (word_.compare_exchange_weak(seen, self.tag(), std::memory_order_acquire))
                    return;
            } else if (spins % kSpinsPerCheck == 0) {
                if (self.owner_dead(seen)) {
                    if (word_.compare_exchange_strong(seen, self.tag(),
                                                      std::memory_order_acquire)) {
                        repair();
                        return;
                    }
                } else {
                    self.yield(spins / kSpinsPerCheck);
                }
            } else {
                cpu_relax();
            }
        }
    }

    // Takes the lock if it is free.
    template <typename Owner>
    bool try_lock(Owner&& self) {
        uint32_t free = 0;
        return word_.compare_exchange_strong(free, self.tag(), std::memory_order_acquire);
    }

    void unlock() { word_.store(0, std::memory_order_release); }

    // The owner's tag, 0 when free.
    uint32_t owner() const { return word_.load(std::memory_order_relaxed); }

  private:
    static constexpr unsigned kSpinsPerCheck = 64;
    std::atomic<uint32_t> word_{0};
};

}  // namespace softhca
