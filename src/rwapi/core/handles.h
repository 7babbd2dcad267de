// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {

// A handle is one word, which also goes over the wire: the index of a place, and above it the
// generation of its use.
struct Handle {
    static constexpr uint32_t kMaxIndex = (1u << 20) - 1;
    static constexpr uint32_t kMaxGeneration = (1u << 24) - 1;

    static constexpr uint64_t pack(uint32_t index, uint32_t generation) {
        return uint64_t{generation} << 32 | index;
    }
    static constexpr uint32_t index_of(uint64_t handle) { return static_cast<uint32_t>(handle); }
    static constexpr uint32_t generation_of(uint64_t handle) {
        return static_cast<uint32_t>(handle >> 32);
    }
};

// Objects with handles. Each use of a place has a generation of its own, so the handle of a removed
// object is recognised. A place whose generations are used up is not used again. Objects do not
// move.
template <class T>
class HandleTable {
  public:
    // used: the highest generation that is not given out.
    explicit HandleTable(uint32_t used = 0) : used_(used) {}

    // Stores an object and returns its handle; 0: the table is full.
    uint64_t add(T object) {
        uint32_t index;
        if (!free_.empty()) {
            index = free_.front();
            free_.pop_front();
        } else {
            if (places_.size() > Handle::kMaxIndex) return 0;
            index = count_++;
            places_.push_back(std::make_unique<Place>());
            places_.back()->generation = used_;
        }
        Place& place = *places_[index];
        place.object.emplace(std::move(object));
        return place.live = Handle::pack(index, ++place.generation);
    }

    // The object; null: there is none. Inlined, because each notification begins with it.
    [[gnu::always_inline]] T* find(uint64_t handle) {
        const uint32_t index = Handle::index_of(handle);
        if (index >= count_ || places_[index]->live != handle) [[unlikely]]
            return nullptr;
        return &*places_[index]->object;
    }
    // The object, or null with the reason: RWAPI_ERR_FOREIGN if the handle is not one of this
    // table, or RWAPI_ERR_STALE if its object has been removed.
    T* find(uint64_t handle, int& error) {
        T* const found = find(handle);
        const uint32_t index = Handle::index_of(handle), generation = Handle::generation_of(handle);
        error = found != nullptr ? RWAPI_OK
                : index < count_ && generation != 0 && generation <= places_[index]->generation
                    ? RWAPI_ERR_STALE
                    : RWAPI_ERR_FOREIGN;
        return found;
    }

    // The handle must be valid.
    void remove(uint64_t handle) {
        TERN_ASSERT(find(handle) != nullptr);
        const uint32_t index = Handle::index_of(handle);
        Place& place = *places_[index];
        place.object.reset();
        place.live = kNotLive;
        if (place.generation < Handle::kMaxGeneration) free_.push_back(index);
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
        uint64_t live = kNotLive;  // the handle of the object
        uint32_t generation = 0;
        std::optional<T> object;
    };

    const uint32_t used_;
    uint32_t count_ = 0;  // places_.size(), which takes more to compute
    std::vector<std::unique_ptr<Place>> places_;
    std::deque<uint32_t> free_;  // the place that has been free for longest is used next
};

}  // namespace rwapi
