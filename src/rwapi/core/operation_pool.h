// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "common/assert.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {

// What distinguishes the ids of a context's operations from those of other contexts: the tag, which
// no other living context has, and, of contexts that have ended, generations up to `used`.
struct IdRange {
    static constexpr unsigned kTagBits = 10;
    uint32_t tag;  // not 0, so that no id is 0
    uint64_t used;
};

// Those of the contexts of a process. For any thread.
class IdRanges {
  public:
    explicit IdRanges(uint64_t used = 0) : used_(used) {}

    // The tag is 0 if living contexts have all of them.
    IdRange take() {
        const std::lock_guard guard(mutex_);
        const auto free = std::find(taken_.begin() + 1, taken_.end(), false);
        if (free == taken_.end()) return {0, used_};
        *free = true;
        return {static_cast<uint32_t>(free - taken_.begin()), used_};
    }
    // used: the highest generation of its ids.
    void give_back(const IdRange& range) {
        const std::lock_guard guard(mutex_);
        if (range.tag != 0) taken_[range.tag] = false;
        used_ = std::max(used_, range.used);
    }

  private:
    std::mutex mutex_;
    uint64_t used_;
    std::vector<bool> taken_ = std::vector<bool>(1u << IdRange::kTagBits);
};

// The operations of a context, in places that are allocated once. A place keeps the result of its
// operation until the place is used again. The place that has been free for longest is used first.
// An error that nobody has asked for by then is not lost: allocate() returns it.
//
// An id: tag of the context (10 bits), generation (the lowest 33), index of the place (20).
template <class T>
class OperationPool {
  public:
    OperationPool(IdRanges& ranges, uint32_t capacity)
        : ranges_(ranges), ids_(ranges.take()), capacity_(capacity), places_(new Place[capacity]) {
        for (uint32_t i = 0; i < capacity; ++i) {
            places_[i].generation = ids_.used;
            places_[i].next = i + 1 < capacity ? i + 1 : kNone;
        }
        first_ = 0;
        last_ = capacity - 1;
    }
    ~OperationPool() {
        uint64_t highest = ids_.used;
        for (uint32_t i = 0; i < capacity_; ++i) highest = std::max(highest, places_[i].generation);
        ranges_.give_back({ids_.tag, highest});
    }
    OperationPool(const OperationPool&) = delete;
    OperationPool& operator=(const OperationPool&) = delete;

    // False: too many contexts live.
    bool has_ids() const { return ids_.tag != 0; }

    // A place for an operation; null: all are in use. Its object is still that of the operation
    // that had the place before. *lost is that operation's error, if test() has not returned it.
    T* allocate(int* lost = nullptr) {
        if (first_ == kNone) return nullptr;
        Place& place = places_[first_];
        first_ = place.next;
        if (first_ == kNone) last_ = kNone;
        ++place.generation;
        if (place.unread && lost != nullptr) [[unlikely]]
            *lost = place.result;
        place.unread = false;
        place.result = 0;
        ++in_use_;
        return &place.object;
    }

    // The operation has ended; result: RWAPI_OK or its error. `named`: the user has its id.
    void finish(T* operation, int result, bool named) {
        TERN_ASSERT(in_use_ > 0 && index_of(operation) < capacity_);
        Place& place = *place_of(operation);
        place.result = result == RWAPI_OK ? 1 : result;
        place.unread = named && result != RWAPI_OK;
        place.next = kNone;
        const uint32_t index = index_of(operation);
        (last_ == kNone ? first_ : places_[last_].next) = index;
        last_ = index;
        --in_use_;
    }

    // As finish(), for an operation without error whose id was given to no one. Its place is used
    // next, while it is in the processor's cache.
    void finish_unnamed(T* operation) {
        TERN_ASSERT(in_use_ > 0 && index_of(operation) < capacity_);
        Place& place = *place_of(operation);
        place.result = 1;
        place.next = first_;
        first_ = index_of(operation);
        if (last_ == kNone) last_ = first_;
        --in_use_;
    }

    // The operation's result is known now, but its place remains in use until finish().
    void set_result(T* operation, int result) { place_of(operation)->result = result; }

    rwapi_id id(const T* operation) const {
        const Place* place = reinterpret_cast<const Place*>(operation);
        return static_cast<int64_t>(uint64_t{ids_.tag} << kTagShift |
                                    (place->generation & kGenerationMask) << kIndexBits |
                                    static_cast<uint64_t>(place - places_.get()));
    }

    // 1: complete; 0: not yet; negative: the operation's error, or that of a wrong id.
    int test(rwapi_id id) {
        int result;
        if (Place* const place = find(id, result)) place->unread = false;
        return result;
    }
    // What test() returns; but an error stays one that nobody has asked for.
    int look(rwapi_id id) const {
        int result;
        find(id, result);
        return result;
    }

    // Calls function(operation, error) for errors of operations that have ended, which test() has
    // not returned.
    template <class Function>
    void for_each_unread(Function function) const {
        for (uint32_t i = 0; i < capacity_; ++i)
            if (places_[i].unread) function(places_[i].object, places_[i].result);
    }

    uint32_t in_use() const { return in_use_; }
    uint32_t capacity() const { return capacity_; }

  private:
    static constexpr uint32_t kNone = UINT32_MAX;
    static constexpr unsigned kIndexBits = 20;
    static constexpr uint64_t kIndexMask = (1u << kIndexBits) - 1;
    static constexpr unsigned kTagShift = 63 - IdRange::kTagBits;
    static constexpr uint64_t kGenerationMask = (uint64_t{1} << (kTagShift - kIndexBits)) - 1;

    struct Place {
        T object;  // first, so that its address is the place's
        uint64_t generation = 0;
        uint32_t next = kNone;
        int result = 1;       // as test() returns it
        bool unread = false;  // an error that test() has not returned
    };

    // The place that has the result; null: none has it, or has it any more.
    Place* find(rwapi_id id, int& result) const {
        const auto word = static_cast<uint64_t>(id);
        const uint64_t index = word & kIndexMask;
        result = id == 0 ? 1 : id < 0 ? RWAPI_ERR_INVALID : RWAPI_ERR_FOREIGN;
        if (id <= 0 || word >> kTagShift != ids_.tag || index >= capacity_) return nullptr;
        Place& place = places_[index];
        // How many times the place has been used since. An id of the future seems to be very old.
        const uint64_t ago = (place.generation - (word >> kIndexBits)) & kGenerationMask;
        if (ago >= place.generation - ids_.used) return nullptr;
        result = ago != 0 ? 1 : place.result;
        return ago != 0 ? nullptr : &place;
    }
    static Place* place_of(T* operation) { return reinterpret_cast<Place*>(operation); }
    uint32_t index_of(T* operation) const {
        return static_cast<uint32_t>(place_of(operation) - places_.get());
    }

    IdRanges& ranges_;
    const IdRange ids_;
    const uint32_t capacity_;
    const std::unique_ptr<Place[]> places_;
    uint32_t first_, last_;  // free places, the one that has been free for longest first
    uint32_t in_use_ = 0;
};

}  // namespace rwapi
