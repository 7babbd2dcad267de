// SPDX-License-Identifier: BSD-3-Clause
// Which memory is a GPU's, as UCX's components for GPUs tell.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "tern/uct/compat.h"

namespace tern {

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
