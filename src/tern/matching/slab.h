// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

namespace tern {

// A fixed number of objects of type `T`, which has a member `T* next_free`. The slab owns them.
template <class T>
class Slab {
  public:
    explicit Slab(uint32_t count) : objects_(std::make_unique<T[]>(count)), count_(count) {}

    // Null if all are taken.
    T* take() {
        T* object = free_;
        if (object != nullptr)
            free_ = object->next_free;
        else if (used_ != count_)
            object = &objects_[used_++];
        return object;
    }
    void give(T* object) {
        object->next_free = free_;
        free_ = object;
    }

    uint32_t count() const { return count_; }
    // Visits every object that was ever taken, also those given back.
    template <class Visit>
    void for_each(Visit&& visit) {
        for (uint32_t i = 0; i < used_; ++i) visit(objects_[i]);
    }

  private:
    std::unique_ptr<T[]> objects_;
    uint32_t count_;
    uint32_t used_ = 0;
    T* free_ = nullptr;
};

}  // namespace tern
