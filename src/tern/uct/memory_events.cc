// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/memory_events.h"

#include <sys/shm.h>

#include <cerrno>

#include "tern/uct/ucx_headers.h"

// Newer versions call it deprecated.
#pragma weak ucm_global_opts

namespace tern {

namespace {

// Called from within munmap() and similar functions, before the pages are unmapped.
void unmapped(ucm_event_type_t, ucm_event_t* event, void* cache) {
    const auto* start = static_cast<const std::byte*>(event->vm_unmapped.address);
    static_cast<PinCache*>(cache)->unmapped(start, start + event->vm_unmapped.size);
}

// Every call that changes memory. One handler is called before it, the other one after it.
constexpr int kCalls = UCM_EVENT_MMAP | UCM_EVENT_MUNMAP | UCM_EVENT_MREMAP | UCM_EVENT_SHMAT |
                       UCM_EVENT_SHMDT | UCM_EVENT_SBRK | UCM_EVENT_BRK | UCM_EVENT_MADVISE;
constexpr int kBefore = -1;
constexpr int kAfter = 1;

constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL of Linux 6.13

// Tells the cache of changes that no monitor is told of.
void tell_of_silent(ucm_event_type_t type, const ucm_event_t& event, PinCache& cache) {
    const void* address = nullptr;
    size_t length = 0;
    if (type == UCM_EVENT_MADVISE && event.madvise.advice == kGuardInstall) {
        address = event.madvise.addr;
        length = event.madvise.length;
    } else if (type == UCM_EVENT_SHMAT && (event.shmat.shmflg & SHM_REMAP) != 0) {
        const int error = errno;
        shmid_ds segment{};
        if (shmctl(event.shmat.shmid, IPC_STAT, &segment) == 0) length = segment.shm_segsz;
        errno = error;
        address = event.shmat.shmaddr;
    }
    const auto* const start = static_cast<const std::byte*>(address);
    if (length != 0) cache.lost_silently(start, start + length);
}

void begins(ucm_event_type_t type, ucm_event_t* event, void* cache) {
    auto& pins = *static_cast<PinCache*>(cache);
    pins.change_begins();
    tell_of_silent(type, *event, pins);
}

void ends(ucm_event_type_t, ucm_event_t*, void* cache) {
    static_cast<PinCache*>(cache)->change_ends();
}

}  // namespace

bool MemoryEvents::of_all() {
    return &ucm_global_opts != nullptr && ucm_global_opts.mmap_hook_mode == UCM_MMAP_HOOK_BISTRO;
}

MemoryEvents::MemoryEvents(PinCache& cache)
    : cache_(cache),
      installed_(ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 0, unmapped, &cache) == UCS_OK) {
    if (!installed_) return;
    // UCX calls no handler while it installs another one. So no call is under way when `begins` is
    // installed, and each later call has a beginning and an end. Both handlers may be missing, or
    // only `ends` installed: see PinCache::change_begins().
    constexpr int kSilently = UCM_EVENT_FLAG_NO_INSTALL;  // `unmapped` has installed what there is
    if (ucm_set_event_handler(kCalls | kSilently, kAfter, ends, &cache) == UCS_OK)
        (void)ucm_set_event_handler(kCalls | kSilently, kBefore, begins, &cache);
}

MemoryEvents::~MemoryEvents() {
    if (!installed_) return;
    ucm_unset_event_handler(kCalls, begins, &cache_);
    ucm_unset_event_handler(kCalls, ends, &cache_);
    ucm_unset_event_handler(UCM_EVENT_VM_UNMAPPED, unmapped, &cache_);
}

}  // namespace tern
