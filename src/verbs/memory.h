// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbs/handles.h"

namespace tern::verbs {

// Zeroed, page-aligned memory of the transport's own, registered with the device during its
// lifetime. The mapping is shared, so that after a fork() copy-on-write does not replace the
// parent's pages, to which the device writes.
class RegisteredMemory {
  public:
    RegisteredMemory() = default;
    // `size` is rounded up to whole pages. `access`: ibv_access_flags; never relaxed ordering. On
    // failure operator bool returns false, and errno says why.
    RegisteredMemory(ibv_pd* pd, size_t size, int access);
    // Only maps memory, which has no pages yet. On failure data() is null.
    explicit RegisteredMemory(size_t size);
    ~RegisteredMemory();
    RegisteredMemory(RegisteredMemory&& other) noexcept;
    RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;

    // Has the kernel provide `size` bytes of pages at `offset`. False: it cannot.
    bool provide(size_t offset, size_t size);
    // Registers what was only mapped.
    bool register_with(ibv_pd* pd, int access);

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
