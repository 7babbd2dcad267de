// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace tern {

// Memory that has lost, or is about to lose, its pages.
struct MemoryChange {
    uint64_t start = 0;
    uint64_t end = 0;
    bool unmapped = false;  // the mapping itself goes, not only its pages
    bool early = false;     // reported before it happens
    bool hooked = false;    // reported by a hook of the owner
    uint64_t moved_to = 0;  // where the mapping is now; 0: nowhere
};

// Changes on their way to the cache. put() may be called from anywhere, even from within malloc()
// or munmap() by a thread that holds the cache's lock: it takes no lock, does not wait and
// allocates nothing. Changes that do not fit become one change of all memory.
class Inbox {
  public:
    void put(const MemoryChange& change) {
        uint64_t ticket = next_.load(std::memory_order_relaxed);
        do {
            // Signed, because an outdated ticket may be less than `taken`.
            const uint64_t taken = taken_.load(std::memory_order_acquire);
            if (static_cast<int64_t>(ticket - taken) >= int64_t{kSlots}) {
                overflow_.store(true, std::memory_order_seq_cst);
                return;
            }
        } while (!next_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_seq_cst));
        Slot& slot = slots_[ticket % kSlots];
        slot.change = change;
        slot.full.store(ticket + 1, std::memory_order_release);
    }

    // A thread that sees that changes were taken out also sees what take_all() did before.
    bool empty() const {
        return taken_.load(std::memory_order_acquire) == next_.load(std::memory_order_seq_cst) &&
               !overflow_.load(std::memory_order_seq_cst);
    }

    // Takes out all changes, in order. One thread at a time. False: a change is just being put in.
    template <class Handle>
    bool take_all(Handle&& handle) {
        if (overflow_.exchange(false, std::memory_order_seq_cst))
            handle(MemoryChange{0, UINT64_MAX, true, true});
        for (;;) {
            const uint64_t ticket = taken_.load(std::memory_order_relaxed);
            Slot& slot = slots_[ticket % kSlots];
            if (slot.full.load(std::memory_order_acquire) != ticket + 1)
                return ticket == next_.load(std::memory_order_seq_cst);
            const MemoryChange change = slot.change;
            taken_.store(ticket + 1, std::memory_order_release);
            handle(change);
        }
    }

  private:
    static constexpr unsigned kSlots = 256;
    struct Slot {
        std::atomic<uint64_t> full{0};  // ticket + 1, once `change` is written
        MemoryChange change;
    };
    std::atomic<uint64_t> next_{0};
    std::atomic<uint64_t> taken_{0};
    std::atomic<bool> overflow_{false};
    std::array<Slot, kSlots> slots_;
};

}  // namespace tern
