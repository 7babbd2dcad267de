// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "tern/pinning/regions/regions.h"

namespace tern {

inline uint64_t to_word(const void* address) {
    return reinterpret_cast<uintptr_t>(address);
}

// Whole pages that are registered with the device. PinCache hands pins out with a reference; the
// keys are good until the reference is released, whatever becomes of the memory.
class Pin {
  public:
    uint64_t start() const { return start_; }
    uint64_t end() const { return end_; }
    unsigned access() const { return access_; }
    uint32_t lkey() const { return region_->lkey; }
    uint32_t rkey() const { return region_->rkey; }

    // Whether it is found: its memory has kept its pages. A change may be on its way to the cache.
    bool listed() const { return listed_.load(std::memory_order_relaxed); }
    // Whether its memory has changed: if not, and it is not found any more, another has replaced
    // it.
    bool stale() const { return stale_.load(std::memory_order_relaxed); }
    // Bytes that count towards PinCache::most_bytes(): memory of another device is not locked.
    uint64_t locked() const { return of_device_ ? 0 : end_ - start_; }

    bool covers(uint64_t start, uint64_t end, unsigned access) const {
        return start_ <= start && end <= end_ && (access_ & access) == access;
    }
    bool overlaps(uint64_t start, uint64_t end) const { return start_ < end && start < end_; }

  private:
    friend class PinCache;
    friend class PinIndex;
    friend class PinList;
    friend class PinTable;
    uint64_t start_ = 0;
    uint64_t end_ = 0;
    unsigned access_ = 0;
    ibv_mr* region_ = nullptr;
    uint32_t references_ = 0;
    // In the index. Written under the lock of the cache, and read without it: is_current().
    std::atomic<bool> listed_{false};
    std::atomic<bool> stale_{false};
    bool of_device_ = false;  // see PinCache::adopt()
    Pin* newer_ = nullptr;
    Pin* older_ = nullptr;
};

// An intrusive list of pins, from the newest to the oldest.
class PinList {
  public:
    bool empty() const { return newest_ == nullptr; }
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete): a pin is removed before it is deleted
    Pin* newest() const { return newest_; }
    Pin* oldest() const { return oldest_; }
    static Pin* next(const Pin* pin) { return pin->older_; }

    void add(Pin* pin) {
        pin->newer_ = nullptr;
        pin->older_ = newest_;
        (newest_ != nullptr ? newest_->newer_ : oldest_) = pin;
        newest_ = pin;
    }
    void remove(Pin* pin) {
        (pin->newer_ != nullptr ? pin->newer_->older_ : newest_) = pin->older_;
        (pin->older_ != nullptr ? pin->older_->newer_ : oldest_) = pin->newer_;
    }

  private:
    Pin* newest_ = nullptr;
    Pin* oldest_ = nullptr;
};

// Pins by address. No pin covers the range of another, so their ends ascend as their starts do: of
// the pins that begin at or before an address, the last reaches farthest.
class PinIndex {
  public:
    Pin* find(uint64_t start, uint64_t end, unsigned access) const {
        const auto after = pins_.upper_bound(start);
        if (after == pins_.begin()) return nullptr;
        Pin* pin = std::prev(after)->second;
        return pin->covers(start, end, access) ? pin : nullptr;
    }

    // Calls `visit` for every pin that overlaps the range; `visit` may remove that pin.
    template <class Visit>
    void overlapping(uint64_t start, uint64_t end, Visit&& visit) {
        auto at = pins_.lower_bound(end);
        while (at != pins_.begin()) {
            const auto before = std::prev(at);
            Pin* pin = before->second;
            if (!pin->overlaps(start, end)) return;
            const bool first = before == pins_.begin();
            const uint64_t key = before->first;
            visit(pin);
            if (first) return;
            at = pins_.lower_bound(key);
        }
    }

    // Adds a pin. The caller must have removed the pins within its range. False: not added, because
    // another pin covers its range, or there is no memory.
    bool add(Pin* pin) {
        if (find(pin->start(), pin->end(), 0) != nullptr) return false;
        try {
            pins_.emplace(pin->start(), pin);
        } catch (const std::bad_alloc&) {
            return false;
        }
        pin->listed_.store(true, std::memory_order_relaxed);
        return true;
    }
    void remove(Pin* pin) {
        pins_.erase(pin->start());
        pin->listed_.store(false, std::memory_order_release);
    }

    size_t size() const { return pins_.size(); }

  private:
    std::map<uint64_t, Pin*> pins_;
};

// The pins of a cache in the order of their last use, and the state of each. All functions are
// called under the lock of the cache, except changes().
//
//   registering   add(): the device has registered it                used, not listed
//                 remove(): the device has refused                   (the caller deletes it)
//   used          list(): find() returns it from now on              used, listed
//                 drop(): its memory changes, or another covers it   used, not listed
//                 the last release(), while it is listed             unused
//                 the last release(), while it is not                dead
//   unused        hold(): find() has returned it                     used, listed
//                 drop(), or evict()                                 dead
//   dead          take_dead(): the caller deregisters and deletes it, and then calls gone()
//
// Pins of another device's memory begin in adopt(), used and listed, but not in the index, so
// that no change of the process's memory drops them. retire() ends that; until then their owner has
// a reference.
class PinTable {
  public:
    // Pins that write do not serve for reading: memory may have one of each kind.
    void keep_apart() { apart_ = true; }
    bool apart(const Pin& one, const Pin& other) const {
        return kind(one.access_) != kind(other.access_);
    }

    // A listed pin that covers the range and gives these rights; null if there is none.
    Pin* find(uint64_t start, uint64_t end, unsigned access) const {
        return index_[kind(access)].find(start, end, access);
    }
    // Calls `visit` for every listed pin that overlaps the range; `visit` may drop that pin.
    template <class Visit>
    void overlapping(uint64_t start, uint64_t end, Visit&& visit) {
        for (PinIndex& index : index_) index.overlapping(start, end, visit);
    }

    void add_registering(Pin* pin) { registering_.add(pin); }
    void remove_registering(Pin* pin) { registering_.remove(pin); }
    // Pins of this range that are being registered have pages that are about to change.
    void mark_stale(uint64_t start, uint64_t end) {
        for (Pin* pin = registering_.newest(); pin != nullptr; pin = PinList::next(pin))
            if (pin->overlaps(start, end)) pin->stale_ = true;
    }
    // Adds a registered pin, with one reference.
    void add(Pin* pin) {
        TERN_ASSERT(pin->references_ == 0 && !pin->listed_);
        pin->references_ = 1;
        used_.add(pin);
    }
    // False: another pin covers its range, or there is no memory.
    bool list(Pin* pin) {
        TERN_ASSERT(pin->references_ > 0 && !pin->stale_);
        return index_[kind(pin->access_)].add(pin);
    }
    // Adds a reference to a listed pin.
    void hold(Pin* pin) {
        TERN_ASSERT(pin->listed_);
        if (pin->references_++ > 0) return;
        unused_.remove(pin);
        used_.add(pin);
    }
    // True: it was the last reference.
    bool release(Pin* pin) {
        TERN_ASSERT(pin->references_ > 0);
        if (--pin->references_ > 0) return false;
        used_.remove(pin);
        if (pin->listed_)
            unused_.add(pin);
        else
            add_dead(pin);
        return true;
    }
    // Takes a listed pin out of the index.
    void drop(Pin* pin) {
        TERN_ASSERT(pin->listed_);
        index_[kind(pin->access_)].remove(pin);
        want_back();
        if (pin->references_ > 0) return;
        unused_.remove(pin);
        add_dead(pin);
    }
    // The pin that has been unused for longest; null if all are in use.
    Pin* oldest_unused() const { return unused_.oldest(); }

    // Adds a pin of another device's memory, with one reference.
    void adopt(Pin* pin) {
        TERN_ASSERT(pin->of_device_ && pin->references_ == 0 && !pin->listed_);
        of_devices_.push_back(pin);
        pin->references_ = 1;
        pin->listed_.store(true, std::memory_order_relaxed);
        used_.add(pin);
    }
    // Such a pin is not found any more. Its owner releases it next.
    void retire(Pin* pin) {
        TERN_ASSERT(pin->of_device_ && pin->references_ > 0 && pin->listed_);
        std::erase(of_devices_, pin);
        pin->listed_.store(false, std::memory_order_release);
        want_back();
    }
    // Such a pin that covers the range; null if there is none.
    Pin* find_of_device(uint64_t start, uint64_t end, unsigned access) const {
        const auto found = std::ranges::find_if(
            of_devices_, [&](const Pin* pin) { return pin->covers(start, end, access); });
        return found != of_devices_.end() ? *found : nullptr;
    }

    // Hands the dead pins over to the caller.
    PinList take_dead() { return std::exchange(dead_, {}); }
    // The caller has deregistered dead pins of so many bytes.
    void gone(uint64_t bytes) {
        TERN_ASSERT(bytes <= dying_);
        dying_ -= bytes;
    }
    // Bytes that are dead, or being deregistered.
    uint64_t dying() const { return dying_; }

    // A number that changes when pins should be given back soon. For any thread.
    uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }
    // Changes it.
    void want_back() { changes_.fetch_add(1, std::memory_order_relaxed); }

    // Calls visit(Pin*) for every pin that is registered, and forgets it.
    template <class Visit>
    void clear(Visit&& visit) {
        for (PinList* list : {&unused_, &used_, &dead_})
            while (Pin* pin = list->newest()) {
                list->remove(pin);
                visit(pin);
            }
    }

  private:
    size_t kind(unsigned access) const { return apart_ && writes(access) ? 1 : 0; }
    void add_dead(Pin* pin) {
        dead_.add(pin);
        dying_ += pin->locked();
    }

    bool apart_ = false;
    std::array<PinIndex, 2> index_;  // by kind
    std::vector<Pin*> of_devices_;   // few, and they may overlap
    PinList unused_;                 // listed, without a reference
    PinList registering_;
    PinList used_;  // with a reference
    PinList dead_;
    uint64_t dying_ = 0;
    std::atomic<uint64_t> changes_{0};
};

}  // namespace tern
