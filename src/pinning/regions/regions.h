// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "pinning/regions/access.h"
#include "pinning/regions/region_use.h"
#include "pinning/watch/fork.h"

namespace tern {

// How a peer names a region. Of the 2^32 generations of an index one is valid at a time, none
// returns before all others were, and where they begin is not told: a key that is stale or made up
// finds nothing.
struct RegionKey {
    uint32_t index = 0;
    uint32_t generation = 0;  // never 0
    bool operator==(const RegionKey&) const = default;
};

// Memory that the user has declared. Declared is not pinned.
class Region {
  public:
    uint64_t address() const { return address_; }
    uint64_t length() const { return length_; }
    unsigned access() const { return access_; }
    RegionKey key() const { return key_; }
    // It is declared, with this key. Needs no lock: what another thread does meanwhile may have
    // been seen or not.
    bool is(RegionKey key) const {
        return __atomic_load_n(&declared_, __ATOMIC_ACQUIRE) &&
               __atomic_load_n(&key_.generation, __ATOMIC_RELAXED) == key.generation;
    }

  private:
    friend class Regions;
    uint64_t address_ = 0;
    uint64_t length_ = 0;
    unsigned access_ = 0;
    RegionKey key_;
    bool declared_ = false;
    RegionUse* uses_ = nullptr;
    uint32_t born_ = 0;  // how often the slot was used
    Region* next_free_ = nullptr;
};

// Whether an access lies within the region and its rights. Nothing is assumed of the numbers.
inline bool covers(const Region& region, uint64_t address, uint64_t length, unsigned access) {
    return (region.access() & access) == access && address >= region.address() &&
           length <= region.length() && address - region.address() <= region.length() - length;
}

// The declared regions of a memory domain. For any thread. Slots are reused, so memory follows the
// most that were declared at once.
class Regions {
  public:
    Regions();
    Regions(const Regions&) = delete;
    Regions& operator=(const Regions&) = delete;

    // Constant cost, no system call but for more slots. Null only if there is no memory for them.
    Region* declare(const void* address, size_t length, unsigned access);
    // From now on find() does not find it, and its uses are over: see RegionUse. Constant cost if
    // there are none. Returns whether there were some, that is, transfers under way. `invalidate`:
    // the device reads the memory no more either.
    bool undeclare(Region* region, bool invalidate = true);

    // A use of the region of this key, which the caller releases; null if there is no such region.
    RegionUse* find(RegionKey key);
    void release(RegionUse* use);

    size_t declared() const;
    // Slots that exist, in use or not.
    size_t slots() const;

  private:
    static constexpr unsigned kFirstChunk = 64;  // slots; every chunk is twice the one before it

    Region* slot(uint32_t index) const;
    bool grow();
    uint32_t generation(uint32_t index, uint32_t born) const;
    void reuse(Region* region);

    ForkGuard guard_;
    mutable std::mutex mutex_;
    uint64_t secret_;
    size_t declared_ = 0;
    uint32_t slots_ = 0;
    uint32_t chunk_count_ = 0;
    Region* free_ = nullptr;
    std::array<std::unique_ptr<Region[]>, 26> chunks_;
    std::deque<RegionUse> uses_;  // free or not
    RegionUse* free_uses_ = nullptr;
};

}  // namespace tern
