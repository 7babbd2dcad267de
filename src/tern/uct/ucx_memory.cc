// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/ucx_memory.h"

#include <sys/shm.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

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

namespace {

// The components that detect memory of GPUs, in all releases. Others are not opened: most take time
// or resources.
constexpr std::array<std::string_view, 3> kDetectors = {"cuda_cpy", "rocm_cpy", "ze_cpy"};

bool detects(uct_component_h component) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
    return uct_component_query(component, &attributes) == UCS_OK &&
           std::ranges::count(kDetectors, std::string_view(attributes.name)) != 0;
}

void open_domains(uct_component_h component, std::vector<uct_md_h>& domains) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if (uct_component_query(component, &attributes) != UCS_OK) return;
    std::vector<uct_md_resource_desc_t> names(attributes.md_resource_count);
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attributes.md_resources = names.data();
    domains.reserve(domains.size() + names.size());
    uct_md_config_t* config;
    if (names.empty() || uct_component_query(component, &attributes) != UCS_OK ||
        uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK)
        return;
    for (const auto& name : names) {
        uct_md_h domain;
        if (uct_md_open(component, name.md_name, config, &domain) == UCS_OK)
            domains.push_back(domain);
    }
    uct_config_release(config);
}

// Types are compared by name, because older releases lack some of the constants. Managed memory and
// Level Zero's host memory are the processor's too.
const char* inaccessible_name(ucs_memory_type_t type) {
    constexpr std::array<std::string_view, 3> kInaccessible = {"cuda", "rocm", "ze-device"};
    const char* const name = type < UCS_MEMORY_TYPE_LAST ? ucs_memory_type_names[type] : nullptr;
    if (name == nullptr || std::ranges::count(kInaccessible, std::string_view(name)) == 0)
        return nullptr;
    return name;
}

}  // namespace

MemoryTypes::MemoryTypes() {
    uct_component_h* components;
    unsigned count;
    if (uct_query_components(&components, &count) != UCS_OK) return;
    const std::unique_ptr<uct_component_h, decltype(&uct_release_component_list)> list(
        components, uct_release_component_list);
    for (unsigned i = 0; i < count; ++i)
        if (detects(components[i])) open_domains(components[i], detectors_);
}

MemoryTypes::~MemoryTypes() {
    for (uct_md_h detector : detectors_) uct_md_close(detector);
}

const char* MemoryTypes::inaccessible(const void* address, size_t length) const {
    ucs_memory_info_t cached;
    const ucs_status_t status = ucs_memtype_cache_lookup(address, length, &cached);
    if (status == UCS_ERR_NO_ELEM) return nullptr;
    if (status == UCS_OK && cached.type != UCS_MEMORY_TYPE_UNKNOWN)
        return inaccessible_name(cached.type);
    for (uct_md_h detector : detectors_) {
        ucs_memory_type_t type;
        if (uct_md_detect_memory_type(detector, address, length, &type) == UCS_OK)
            return inaccessible_name(type);
    }
    return nullptr;
}

}  // namespace tern
