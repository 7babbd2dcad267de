// SPDX-License-Identifier: BSD-3-Clause
// UCX's memory events, for where neither the device nor the kernel tells that pages have gone.
#pragma once

#include "pinning/cache/pin_cache.h"

namespace tern {

/// Has UCX tell the cache of memory that is unmapped, for as long as it lives. Needs
/// UCX_MEM_EVENTS.
class MemoryEvents {
  public:
    explicit MemoryEvents(PinCache& cache);
    ~MemoryEvents();
    MemoryEvents(const MemoryEvents&) = delete;
    MemoryEvents& operator=(const MemoryEvents&) = delete;

    /// Whether UCX does.
    explicit operator bool() const { return installed_; }

  private:
    PinCache& cache_;
    bool installed_;
};

}  // namespace tern
