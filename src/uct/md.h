// SPDX-License-Identifier: BSD-3-Clause
// The memory domain: one for each verbs device with a usable port.
#pragma once

#include "uct/compat.h"
#include "verbs/port.h"

namespace tern {

struct MemoryDomain {
    uct_md_t super;  // first: UCX casts
    verbs::Device device;
};

inline MemoryDomain& memory_domain(uct_md_h md) {
    return *reinterpret_cast<MemoryDomain*>(md);
}

// The handle of memory that may not be pinned: it is copied when it is sent, and nobody else
// reaches it.
inline ibv_mr not_pinned{};

// Of the component.
ucs_status_t query_md_resources(uct_component_t* component, uct_md_resource_desc_t** resources,
                                unsigned* count);
ucs_status_t md_open(uct_component_t* component, const char* name, const uct_md_config_t* config,
                     uct_md_h* md);
// More: parameters in newer versions, the key, and a handle that is not needed.
template <typename... More>
ucs_status_t rkey_unpack(uct_component_t*, const void* buffer, More... more) {
    uint32_t value = 0;
    memcpy(&value, buffer, sizeof(value));
    *compat::from_end<1>(more...) = value;
    *compat::from_end<0>(more...) = nullptr;
    return UCS_OK;
}

// Of the transport.
ucs_status_t query_ports(uct_md_h md, uct_tl_device_resource_t** ports, unsigned* count);

}  // namespace tern
