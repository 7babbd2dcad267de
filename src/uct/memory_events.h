// SPDX-License-Identifier: BSD-3-Clause
// Listens to UCX's memory events, where neither the device nor the kernel reports lost pages.
#pragma once

#include "pinning/cache/pin_cache.h"

namespace tern {

// Makes UCX report unmapped memory to the cache, during this object's life. Needs UCX_MEM_EVENTS.
class MemoryEvents {
  public:
    explicit MemoryEvents(PinCache& cache);
    ~MemoryEvents();
    MemoryEvents(const MemoryEvents&) = delete;
    MemoryEvents& operator=(const MemoryEvents&) = delete;

    // Whether UCX tells of every change that a function of libc makes, as it does if it changes
    // these functions themselves, and not only the calls of them from other libraries.
    static bool of_all();

    // Whether UCX has accepted the handler.
    explicit operator bool() const { return installed_; }

  private:
    PinCache& cache_;
    bool installed_;
};

}  // namespace tern
