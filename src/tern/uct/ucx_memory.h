// SPDX-License-Identifier: BSD-3-Clause
// What UCX knows of memory: when it is unmapped, for memory whose lost pages neither the device nor
// the kernel reports, and whether it is a GPU's, as UCX's components for GPUs tell.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "tern/pinning/cache/pin_cache.h"
#include "tern/uct/compat.h"

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

// Asks the memory domains that detect a GPU's memory. UCP may have closed its own: see UCX_TLS in
// docs/tern/tern.md. Any thread.
class MemoryTypes {
  public:
    // Opens those that this process has. There are none on machines without a GPU.
    MemoryTypes();
    ~MemoryTypes();
    MemoryTypes(const MemoryTypes&) = delete;
    MemoryTypes& operator=(const MemoryTypes&) = delete;

    bool any() const { return !detectors_.empty(); }
    // The name of the memory's type if the processor cannot access it, null if it can. Costs a
    // look into UCX's cache of memory types, if that is not disabled.
    const char* inaccessible(const void* address, size_t length) const;
    // Whether this is the first call: memory was refused for the first time.
    bool first_refusal() { return !refused_.exchange(true, std::memory_order_relaxed); }

  private:
    std::vector<uct_md_h> detectors_;
    std::atomic<bool> refused_{false};
};

}  // namespace tern
