// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/verbs/handles.h"

namespace tern::verbs {

// Writes to each page of memory that has pages and nothing of value in them. In a virtual machine
// the host may provide a page only then, which takes up to 14 us without a page fault in the guest.
void touch_pages(void* start, size_t size);

// Flags of a registration whose writes the device may make visible in any order. Only for memory
// that is read after a completion, never for what is polled: blocks, rings, words.
constexpr int relaxed_access(bool relaxed) {
    return relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0;
}

// Whether the device registers memory with this flag. Most ignore a flag that they do not know.
bool takes_relaxed_ordering(ibv_pd* pd);

// Zeroed, page-aligned memory of the transport's own, registered with the device during its
// lifetime. The mapping is shared, so that after a fork() copy-on-write does not replace the
// parent's pages, to which the device writes.
class RegisteredMemory {
  public:
    RegisteredMemory() = default;
    // `size` is rounded up to whole pages. `access`: ibv_access_flags. On failure operator bool
    // returns false, and errno says why.
    RegisteredMemory(ibv_pd* pd, size_t size, int access);
    ~RegisteredMemory();
    RegisteredMemory(RegisteredMemory&& other) noexcept;
    RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;

    explicit operator bool() const { return region_ != nullptr; }
    std::byte* data() const { return data_; }
    size_t size() const { return size_; }
    uint32_t lkey() const { return region_->lkey; }
    uint32_t rkey() const { return region_->rkey; }

  private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
    MemoryRegion region_;
};

}  // namespace tern::verbs
