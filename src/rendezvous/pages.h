// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace tern {

// Memory of our own, with its pages in place.
class Pages {
  public:
    explicit Pages(size_t size)
        : size_(size),
          start_(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {}
    ~Pages() {
        if (*this) munmap(start_, size_);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    explicit operator bool() const { return start_ != MAP_FAILED; }
    char* data() const { return static_cast<char*>(start_); }

  private:
    size_t size_;
    void* start_;
};

}  // namespace tern
