// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// At most kMost items; a copy costs only as much as its items.
template <class T, unsigned kMost>
class Few {
  public:
    Few() = default;
    Few(const Few& other) : size_(other.size_) { copy(other); }
    Few& operator=(const Few& other) {
        size_ = other.size_;
        copy(other);
        return *this;
    }

    T* begin() { return items_; }
    T* end() { return items_ + size_; }
    const T* begin() const { return items_; }
    const T* end() const { return items_ + size_; }
    uint32_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    bool full() const { return size_ == kMost; }
    T& operator[](uint32_t i) { return items_[i]; }
    const T& operator[](uint32_t i) const { return items_[i]; }
    T& front() { return items_[0]; }
    T& back() { return items_[size_ - 1]; }
    T& push(const T& item) {
        if (full()) __builtin_trap();
        return items_[size_++] = item;
    }
    void erase(uint32_t i) {
        for (--size_; i < size_; ++i) items_[i] = items_[i + 1];
    }
    T pop() {
        const T item = items_[0];
        erase(0);
        return item;
    }
    void clear() { size_ = 0; }

  private:
    void copy(const Few& other) {
        for (uint32_t i = 0; i < size_; ++i) items_[i] = other.items_[i];
    }

    uint32_t size_ = 0;
    T items_[kMost];
};

}  // namespace tern
