// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {

// The kind of object that a handle names. The handle contains it, so that a handle of another kind
// is an error.
enum class Kind : uint8_t { kOwnRegion = 1, kCounter = 2 };

// A handle: tag of the context (16 bits), kind (4), generation (24), index (20).
struct Handle {
    static constexpr uint32_t kMaxIndex = (1u << 20) - 1;
    static constexpr uint32_t kMaxGeneration = (1u << 24) - 1;

    uint16_t tag;
    Kind kind;
    uint32_t generation;
    uint32_t index;

    static constexpr Handle unpack(uint64_t word) {
        return {static_cast<uint16_t>(word >> 48), static_cast<Kind>(word >> 44 & 0xf),
                static_cast<uint32_t>(word >> 20) & kMaxGeneration,
                static_cast<uint32_t>(word) & kMaxIndex};
    }
    constexpr uint64_t pack() const {
        return uint64_t{tag} << 48 | uint64_t{static_cast<uint8_t>(kind)} << 44 |
               uint64_t{generation} << 20 | index;
    }
};

// Objects that users name by handles. Each use of a place has a generation of its own, so the
// handle of a removed object is recognised. A place whose generations are used up is not used
// again. Objects do not move.
template <class T>
class HandleTable {
  public:
    // used: the highest generation that earlier handles with this tag may have.
    HandleTable(uint16_t tag, Kind kind, uint32_t used)
        : above_(Handle{tag, kind, 0, 0}.pack() >> kKindShift), used_(used) {}

    // Stores an object and returns its handle; 0: the table is full.
    uint64_t add(T object) {
        uint32_t index;
        if (!free_.empty()) {
            index = free_.front();
            free_.pop_front();
        } else {
            if (places_.size() > Handle::kMaxIndex || used_ == Handle::kMaxGeneration) return 0;
            index = static_cast<uint32_t>(places_.size());
            places_.push_back(std::make_unique<Place>());
            ++count_;
            places_.back()->generation = used_;
        }
        Place& place = *places_[index];
        place.object.emplace(std::move(object));
        ++place.generation;
        place.live = uint64_t{place.generation} << 32 | index;
        return above_ << kKindShift | Handle{0, {}, place.generation, index}.pack();
    }

    // The object. Null: `error` is RWAPI_ERR_FOREIGN if the handle is not one of this table, or
    // RWAPI_ERR_STALE if its object has been removed. Inlined, because each put and notification
    // begins with it.
    [[gnu::always_inline]] T* find(uint64_t word, int& error) {
        error = RWAPI_ERR_FOREIGN;
        if (word >> kKindShift != above_) return nullptr;
        const Handle handle = Handle::unpack(word);
        return find(handle.index, handle.generation, error);
    }

    // The same by the parts that go over the wire.
    [[gnu::always_inline]] T* find(uint32_t index, uint32_t generation, int& error) {
        if (index < places_.size()) [[likely]] {
            Place& place = *places_[index];
            error = RWAPI_OK;
            if (place.generation == generation && place.object) [[likely]]
                return &*place.object;
        }
        error = why_not(index, generation);
        return nullptr;
    }

    // The same by one word: the index, and above it the generation. Null without the reason.
    [[gnu::always_inline]] T* find_live(uint64_t place_and_generation) {
        const auto index = static_cast<uint32_t>(place_and_generation);
        if (index >= count_ || places_[index]->live != place_and_generation) [[unlikely]]
            return nullptr;
        return &*places_[index]->object;
    }

    // The handle must be valid.
    void remove(uint64_t word) {
        const uint32_t index = Handle::unpack(word).index;
        TERN_ASSERT(index < places_.size() && places_[index]->object);
        Place& place = *places_[index];
        place.object.reset();
        place.live = kNotLive;
        if (place.generation < Handle::kMaxGeneration) free_.push_back(index);
    }

    // The highest generation that handles have.
    uint32_t highest() const {
        uint32_t highest = used_;
        for (const auto& place : places_) highest = std::max(highest, place->generation);
        return highest;
    }

    template <class Function>
    void for_each(Function function) {
        for (const auto& place : places_) {
            if (place->object) function(*place->object);
        }
    }

  private:
    static constexpr uint64_t kNotLive = UINT64_MAX;  // has the index of no place

    struct Place {
        uint64_t live = kNotLive;  // the index, and above it the generation, of an object
        uint32_t generation = 0;
        std::optional<T> object;
    };

    // The error of a handle that has no object.
    [[gnu::cold, gnu::noinline]] int why_not(uint32_t index, uint32_t generation) const {
        return index < places_.size() && generation != 0 && generation <= places_[index]->generation
                   ? RWAPI_ERR_STALE
                   : RWAPI_ERR_FOREIGN;
    }

    static constexpr unsigned kKindShift = 44;

    const uint64_t above_;  // tag and kind of the handles: their bits from kKindShift on
    const uint32_t used_;
    uint32_t count_ = 0;  // places_.size(), which takes more to compute
    std::vector<std::unique_ptr<Place>> places_;
    std::deque<uint32_t> free_;  // the place that has been free for longest is used next
};

}  // namespace rwapi
