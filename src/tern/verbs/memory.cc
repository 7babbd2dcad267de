// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tern::verbs {

// The thread sanitizer would touch its own pages for each of these, and the memory is not shared
// yet.
__attribute__((no_sanitize("thread"))) void touch_pages(void* start, size_t size) {
    static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (size_t at = 0; at < size; at += page)
        *reinterpret_cast<volatile std::byte*>(static_cast<std::byte*>(start) + at) = std::byte{};
}

bool takes_relaxed_ordering(ibv_pd* pd) {
    return bool(RegisteredMemory(pd, 1, IBV_ACCESS_LOCAL_WRITE | relaxed_access(true)));
}

RegisteredMemory::RegisteredMemory(ibv_pd* pd, size_t size, int access) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (size + page - 1) & ~(page - 1);
    void* mapping = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(mapping);
    region_.reset(ibv_reg_mr(pd, data_, size_, access));
}

RegisteredMemory::~RegisteredMemory() {
    const int saved = errno;
    region_.reset();
    if (data_ != nullptr) munmap(data_, size_);
    errno = saved;
}

RegisteredMemory::RegisteredMemory(RegisteredMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      region_(std::move(other.region_)) {}

RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(region_, other.region_);
    return *this;
}

}  // namespace tern::verbs
