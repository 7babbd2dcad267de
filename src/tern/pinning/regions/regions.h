// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "tern/pinning/watch/fork.h"

namespace tern {

// Rights to memory: of this process's own transfers (local), and of peers (remote).
enum Access : unsigned {
    kLocalRead = 1u << 0,
    kLocalWrite = 1u << 1,
    kRemoteGet = 1u << 2,
    kRemotePut = 1u << 3,
    kRemoteAtomic = 1u << 4,
    kRemoteAll = kRemoteGet | kRemotePut | kRemoteAtomic,
};

// Whether these rights allow the bytes to change.
constexpr bool writes(unsigned access) {
    return (access & (kLocalWrite | kRemotePut | kRemoteAtomic)) != 0;
}

class Region;

// An object through which the device may write to memory.
class Stoppable {
  public:
    // When this returns, the device writes no more. For any thread; must not call Regions.
    virtual void stop() = 0;

  protected:
    ~Stoppable() = default;
};

// The use of a declared region by a peer's transfer, until the transfer releases it. The end of the
// declaration ends the use, see lend(): when Regions::undeclare() has returned, neither this
// process nor the device touches the memory for the transfer any more. The transfer belongs to one
// thread; any other thread may call undeclare().
class RegionUse {
  public:
    const Region& region() const { return *region_; }

    // True: the memory may be touched until leave(). False: the memory is not declared any more.
    // The code between enter() and leave() must be short, and may not call Regions.
    bool enter() {
        if ((state_.fetch_or(kInside, std::memory_order_acquire) & kRevoked) == 0) return true;
        leave();
        return false;
    }
    void leave() { state_.fetch_and(~kInside, std::memory_order_release); }

    // Only between enter() and leave(): from now on the device may touch the memory too, through
    // this queue pair; null: no longer. `writes`: the device may write. undeclare() puts the queue
    // pair into error, the only way to stop the device. If the device only reads, undeclare() does
    // so only to invalidate the memory: the peer may have read all of it and have said so by other
    // means, and the memory is pinned until the transfer ends.
    void lend(ibv_qp* qp, bool writes) {
        device_ = qp;
        writes_ = writes;
    }
    // Lends the memory to a queue of receives, which undeclare() stops.
    void lend(Stoppable& queue, bool writes) {
        queue_ = &queue;
        writes_ = writes;
    }
    // Whether undeclare() has put the queue pair into error.
    bool cut() const { return (state_.load(std::memory_order_relaxed) & kCut) != 0; }

    // Whether the memory is not declared any more: enter() fails.
    bool revoked() const { return (state_.load(std::memory_order_relaxed) & kRevoked) != 0; }

  private:
    friend class Regions;
    static constexpr unsigned kInside = 1;
    static constexpr unsigned kRevoked = 2;
    static constexpr unsigned kCut = 4;

    Region* region_ = nullptr;
    std::atomic<unsigned> state_{0};
    ibv_qp* device_ = nullptr;
    Stoppable* queue_ = nullptr;
    bool writes_ = false;
    // In the list of one region's uses, or of the free ones.
    RegionUse* next_ = nullptr;
    RegionUse* previous_ = nullptr;
};

// The name of a region for peers. Of the 2^32 generations of an index, one is valid at a time; none
// returns before all others were used, and their start is secret: a stale or invented key finds
// nothing.
struct RegionKey {
    uint32_t index = 0;
    uint32_t generation = 0;  // never 0
    bool operator==(const RegionKey&) const = default;
};

// Memory that the user has declared; not necessarily pinned.
class Region {
  public:
    uint64_t address() const { return address_; }
    uint64_t length() const { return length_; }
    unsigned access() const { return access_; }
    RegionKey key() const { return key_; }
    // Whether the region is declared with this key. Needs no lock: calls that other threads make
    // meanwhile may have been seen or not.
    bool is(RegionKey key) const {
        return __atomic_load_n(&declared_, __ATOMIC_ACQUIRE) &&
               __atomic_load_n(&key_.generation, __ATOMIC_RELAXED) == key.generation;
    }
    // Counts a packing of the region's key for peers, by any thread; returns the number of packings
    // so far. Whatever was known of the memory for the sake of an earlier packing may be out of
    // date. The count does not end with the declaration.
    uint64_t pack() { return __atomic_add_fetch(&packings_, 1, __ATOMIC_ACQ_REL); }
    uint64_t packings() const { return __atomic_load_n(&packings_, __ATOMIC_ACQUIRE); }
    // An object that belongs to the declarer of the region. It stays when the declaration ends, for
    // the next region in this slot. Only for the declarer, while the region is declared.
    void* attachment() const { return attachment_; }
    void attach(void* object) { attachment_ = object; }

  private:
    friend class Regions;
    uint64_t address_ = 0;
    uint64_t length_ = 0;
    unsigned access_ = 0;
    RegionKey key_;
    bool declared_ = false;
    RegionUse* uses_ = nullptr;
    uint32_t born_ = 0;  // generations used so far
    uint64_t packings_ = 0;
    void* attachment_ = nullptr;
    Region* next_free_ = nullptr;
};

// Whether an access lies within the region and its rights. The numbers may have any value.
inline bool covers(const Region& region, uint64_t address, uint64_t length, unsigned access) {
    return (region.access() & access) == access && address >= region.address() &&
           length <= region.length() && address - region.address() <= region.length() - length;
}

// The declared regions of a memory domain. For any thread. Slots are reused, so their number
// follows the most regions that were declared at once.
class Regions {
  public:
    Regions();
    Regions(const Regions&) = delete;
    Regions& operator=(const Regions&) = delete;

    // Constant cost, and no system call except for more slots. Null: there can be no more slots, or
    // the process is the child of a fork.
    Region* declare(const void* address, size_t length, unsigned access);
    // Ends the declaration: find() does not find the region any more, and its uses end, see
    // RegionUse. Constant cost without uses. Returns whether there were uses, that is, transfers
    // under way. `invalidate`: the device must not read the memory any more either.
    bool undeclare(Region* region, bool invalidate = true);

    // A use of the region of this key, which the caller releases; null if there is no such region.
    RegionUse* find(RegionKey key);
    void release(RegionUse* use);

    // Calls visit(object) for everything that is attached to a region, declared or not.
    template <class Visit>
    void for_each_attachment(Visit&& visit) {
        const std::lock_guard lock(mutex_);
        for (uint32_t i = 0; i < slots_; ++i)
            if (void* const object = slot(i)->attachment_; object != nullptr) visit(object);
    }

    // The number of slots, in use or not.
    size_t slots() const;
    // How many declarations have ended while transfers used them. Data path.
    uint64_t revocations() const { return revocations_.load(std::memory_order_acquire); }

  private:
    static constexpr unsigned kFirstChunk = 64;  // slots; every further chunk has twice as many

    Region* slot(uint32_t index) const;
    bool grow();
    uint32_t generation(uint32_t index, uint32_t born) const;
    void reuse(Region* region);

    ForkGuard guard_;
    std::atomic<uint64_t> revocations_{0};
    mutable std::mutex mutex_;
    uint64_t secret_;
    uint32_t slots_ = 0;
    uint32_t chunk_count_ = 0;
    Region* free_ = nullptr;
    std::array<std::unique_ptr<Region[]>, 26> chunks_;
    std::deque<RegionUse> uses_;  // in use or free
    RegionUse* free_uses_ = nullptr;
};

}  // namespace tern
