// SPDX-License-Identifier: BSD-3-Clause
// This process's handles of its own objects, by index.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/handles.h"

namespace softhca {

template <typename T>
class ObjectTable {
  public:
    void put(uint32_t index, T* object) {
        objects_[index].store(object, std::memory_order_release);
    }
    void drop(uint32_t index) { objects_[index].store(nullptr, std::memory_order_release); }
    T* at(uint32_t index) const { return objects_[index].load(std::memory_order_acquire); }
    /// nullptr if the number is of another process, or of an object that is gone.
    T* get(uint32_t number) const {
        T* object = at(ObjectNumber::index(number));
        return object != nullptr && object->number() == number ? object : nullptr;
    }

  private:
    std::atomic<T*> objects_[kMaxObjects] = {};
};

}  // namespace softhca
