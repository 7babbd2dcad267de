// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/memory.h"

#include <sys/mman.h>

#include <cstring>

#include "bench/measure/failure.h"

namespace bench {

Memory::Memory(Kind kind, size_t size) : size_(size) {
    const int flags = kind == Kind::shared ? MAP_SHARED : MAP_PRIVATE;
    void* mapped =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mapped == MAP_FAILED) throw call_failed("mmap");
    data_ = static_cast<char*>(mapped);
    // Reading alone would leave private pages all one page of zeros.
    std::memset(data_, 0, size);
}

Memory::~Memory() {
    ::munmap(data_, size_);
}

}  // namespace bench
