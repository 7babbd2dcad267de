// SPDX-License-Identifier: BSD-3-Clause
#include "uct/memory_events.h"

#include "uct/ucx_headers.h"

// Newer versions call it deprecated.
#pragma weak ucm_global_opts

namespace tern {

namespace {

// Called from within munmap() and the like, before pages go.
void unmapped(ucm_event_type_t, ucm_event_t* event, void* cache) {
    const auto* start = static_cast<const std::byte*>(event->vm_unmapped.address);
    static_cast<PinCache*>(cache)->unmapped(start, start + event->vm_unmapped.size);
}

}  // namespace

bool MemoryEvents::of_all() {
    return &ucm_global_opts != nullptr && ucm_global_opts.mmap_hook_mode == UCM_MMAP_HOOK_BISTRO;
}

MemoryEvents::MemoryEvents(PinCache& cache)
    : cache_(cache),
      installed_(ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 0, unmapped, &cache) == UCS_OK) {}

MemoryEvents::~MemoryEvents() {
    if (installed_) ucm_unset_event_handler(UCM_EVENT_VM_UNMAPPED, unmapped, &cache_);
}

}  // namespace tern
