// SPDX-License-Identifier: BSD-3-Clause
// Handlers of UCX's memory events, for memory whose lost pages neither the device nor the kernel
// reports.
#pragma once

#include "tern/pinning/cache/pin_cache.h"

namespace tern {

// Makes UCX report unmapped memory to the cache, during this object's life. Needs UCX_MEM_EVENTS.
class MemoryEvents {
  public:
    explicit MemoryEvents(PinCache& cache);
    ~MemoryEvents();
    MemoryEvents(const MemoryEvents&) = delete;
    MemoryEvents& operator=(const MemoryEvents&) = delete;

    // Whether UCX reports every change that a function of libc makes: it does if its hooks are in
    // these functions themselves, and not only in the calls of other libraries.
    static bool of_all();

    // Whether UCX has accepted the handler.
    explicit operator bool() const { return installed_; }

  private:
    PinCache& cache_;
    bool installed_;
};

}  // namespace tern
