// SPDX-License-Identifier: BSD-3-Clause
// The memory domain: one for each verbs device with a usable port.
#pragma once

#include <atomic>
#include <compare>
#include <memory>
#include <mutex>

#include "tern/base/shortage.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/pinning/regions/regions.h"
#include "tern/pinning/watch/fork.h"
#include "tern/rendezvous/cost_model.h"
#include "tern/rendezvous/decision.h"
#include "tern/uct/compat.h"
#include "tern/uct/config.h"
#include "tern/uct/memory.h"
#include "tern/uct/ucx_memory.h"
#include "tern/verbs/port.h"

namespace tern {

struct MemoryDomain {
    uct_md_t super;  // first: UCX casts
    verbs::Device device;
    Regions regions;
    std::unique_ptr<PinCache> pins;
    std::unique_ptr<MemoryEvents> events;  // null: not needed, or not available
    // Costs of copies and registration; each interface adds those of its network.
    Costs costs;
    ForkGuard fork;
    std::mutex opening;  // held while open memory is registered, or pins are lent
    Shortage shortage{scarce::kOpenMemory};  // under `opening`
    bool publishes;                          // keys of messages carry the rkeys of pins
    bool opens_all_keys;  // every packed key counts as the program's; see key_owner.h
    uint64_t lent_bytes;  // of pins that memory handles hold; under `opening`
    MemoryTypes types;
    bool dma_buffers;  // the device takes them, and so does the setting
    bool relaxed;      // what is read only after a completion is registered so
    std::atomic<uint32_t> interfaces;
};

// UCX fills it in from the environment.
struct MemoryConfig {
    uct_md_config_t super;
    SiteMemoryConfig site;
#define MEMORY_SETTING(type, member, ...) type member;
#include "tern/uct/settings.def"
};

extern ucs_config_field_t memory_config_table[];

inline MemoryDomain& memory_domain(uct_md_h md) {
    return *reinterpret_cast<MemoryDomain*>(md);
}

// Declares memory. Null: there can be no more slots, or no memory is left. Any thread.
MemoryHandle* declare(MemoryDomain& domain, void* address, size_t length, unsigned access);
// Rights of peers to open memory, for verbs.
int open_access(const ibv_device_attr& device);
// Opens declared memory to peers that have its key, if the device can register it. Any thread.
void open_memory(MemoryDomain& domain, MemoryHandle& handle);
// Packs the key to declared memory, for peers. Any thread. `address`, `length`: of the message, if
// known; unless they are a part of the memory, the message cannot be copied early.
Packing pack_key(MemoryDomain& domain, MemoryHandle& handle, const void* address, size_t length);
// To be called when the request to send that carries the key has been sent. Counts a use of the
// buffer if the receiver reads the message without a request to the sender.
void note_use(const Packing& packed);
// Releases the pins whose rkeys were packed. They may stay pinned until their room is needed.
void take_back(MemoryDomain& domain, MemoryHandle& handle);

// The component `tern` (component.cc).
extern uct_component_t tern_component;
// For it.
ucs_status_t query_md_resources(uct_component_t* component, uct_md_resource_desc_t** resources,
                                unsigned* count);
ucs_status_t md_open(uct_component_t* component, const char* name, const uct_md_config_t* config,
                     uct_md_h* md);
// `more`: parameters (in newer versions), the key, and a handle.
template <typename... More>
ucs_status_t rkey_unpack(uct_component_t*, const void* buffer, More... more) {
    PackedKey packed;
    memcpy(&packed, buffer, sizeof(packed));
    auto* key = new (std::nothrow) RemoteKey(packed);
    if (key == nullptr) return UCS_ERR_NO_MEMORY;
    *compat::from_end<1>(more...) = reinterpret_cast<uct_rkey_t>(key);
    *compat::from_end<0>(more...) = key;
    return UCS_OK;
}
ucs_status_t rkey_release(uct_component_t* component, uct_rkey_t rkey, void* handle);
// Orders keys. Keys that compare equal are of the same memory.
template <typename Parameters>
ucs_status_t rkey_compare(uct_component_t*, uct_rkey_t a, uct_rkey_t b,
                          const Parameters* parameters, int* result) {
    if (parameters->field_mask != 0 || result == nullptr) return UCS_ERR_INVALID_PARAM;
    const std::strong_ordering order = remote_key(a).identity() <=> remote_key(b).identity();
    *result = std::is_lt(order) ? -1 : std::is_gt(order) ? 1 : 0;
    return UCS_OK;
}

// For the transport.
ucs_status_t query_ports(uct_md_h md, uct_tl_device_resource_t** ports, unsigned* count);

}  // namespace tern
